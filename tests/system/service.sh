#!/usr/bin/env bash
# Follows docs/how-to/systemd.md under a real systemd, in a booted container. See README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:?folder to work in}" && cd "$1" && pwd)
root="$folder/service"
. "$here/debian_root.sh"

# Settings of this machine's environment would be followed in the root, where they mean nothing.
in_root() { env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"; }

make_base "$folder/service-base" git,libpam-systemd,polkitd,sudo
rm -rf "$root"
cp -a "$folder/service-base" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
in_root apt-get update --quiet=2
# What the page takes for granted: an administrator, sam, with a clone. Nobody is there to answer apt or sudo.
in_root useradd --create-home --shell /bin/bash --groups sudo sam
echo 'sam ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/sam"
echo localhost >"$root/etc/hostname"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/yes"
git clone --quiet --depth 1 "file://$project" "$root/srv/upstream"
in_root chown -R sam: /srv/upstream
in_root su --login sam --command "git clone --quiet /srv/upstream agentctx"

cp "$here/service_probe.sh" "$root/probe.sh"
cp "$project/docs/how-to/systemd.md" "$root/systemd.md"
cat >"$root/etc/systemd/system/probe.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /probe.sh
ExecStopPost=/bin/systemctl poweroff
StandardOutput=append:/probe.log
StandardError=inherit
UNIT
mkdir -p "$root/etc/systemd/system/graphical.target.wants"
ln -s /etc/systemd/system/probe.service "$root/etc/systemd/system/graphical.target.wants/"
timeout 1800 systemd-nspawn -D "$root" -b --register=no --keep-unit </dev/null >"$folder/boot.log" 2>&1 || true
cat "$root/probe.log"
[ "$(tail -1 "$root/probe.log")" = ok ]
