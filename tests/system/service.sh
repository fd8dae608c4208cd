#!/usr/bin/env bash
# Runs the service under a real systemd, in a booted container. See README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:?folder to work in}" && cd "$1" && pwd)
root="$folder/service"
. "$here/debian_root.sh"

# Settings of this machine's environment would be followed in the root, where they mean nothing.
in_root() { env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"; }

make_base "$folder"
rm -rf "$root"
cp -a "$folder/base" "$root"
mkdir -p "$root/src"
(cd "$project" && cp -a agentctx config migrations systemd pyproject.toml hatch_build.py requirements.lock README.md LICENSE CHANGELOG.md "$root/src/")
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
in_root python3 -m venv /opt/agentctx
in_root /opt/agentctx/bin/pip install --quiet --no-deps --require-hashes -r /src/requirements.lock
in_root /opt/agentctx/bin/pip install --quiet --no-deps --no-build-isolation /src
# The same as a later version, for the update.
sed -i 's/^__version__ = .*/__version__ = "99.0.0"/' "$root/src/agentctx/__init__.py"
in_root /opt/agentctx/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /opt/next /src
rm -rf "$root/src"
ln -s /opt/agentctx/bin/agentctx "$root/usr/local/bin/agentctx"

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
timeout 300 systemd-nspawn -D "$root" -b --register=no --keep-unit </dev/null >"$folder/boot.log" 2>&1 || true
cat "$root/probe.log"
[ "$(tail -1 "$root/probe.log")" = ok ]
