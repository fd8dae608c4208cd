# Sourced: makes FOLDER/base, a Debian root with systemd and Python, unless it is there.
make_base() {
  local base="$1/base"
  [ -e "$base/.done" ] && return
  rm -rf "$base"
  debootstrap --variant=minbase \
    --include=systemd,systemd-sysv,dbus,ca-certificates,procps,python3,python3-venv \
    bookworm "$base" ${MIRROR:+"$MIRROR"} >"$1/debootstrap.log"
  # The root takes packages from where this machine does, and trusts whom it trusts.
  cp -L /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/ca-certificates.crt"
  [ -e /etc/pip.conf ] && cp /etc/pip.conf "$base/etc/pip.conf"
  touch "$base/.done"
}
