# Sourced. make_base BASE PACKAGE,…: makes a Debian root with systemd and these packages, unless it is there.
make_base() {
  [ -e "$1/.done" ] && return
  rm -rf "$1"
  debootstrap --variant=minbase --include="systemd,systemd-sysv,dbus,ca-certificates,python3,$2" \
    bookworm "$1" ${MIRROR:+"$MIRROR"} >"$1.log"
  # The root takes packages from where this machine does, and trusts whom it trusts.
  cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
  [ -e /etc/pip.conf ] && cp /etc/pip.conf "$1/etc/pip.conf"
  touch "$1/.done"
}
