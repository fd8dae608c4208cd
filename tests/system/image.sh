#!/usr/bin/env bash
# Builds the Dockerfile on a Debian root and runs the image read-only, without network. See README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:?folder to work in}" && cd "$1" && pwd)
. "$here/debian_root.sh"

# vfs needs no mount of its own, so this works inside a container.
store=(--root "$folder/images" --runroot "$folder/images-run" --storage-driver vfs)
make_base "$folder"
if ! buildah "${store[@]}" inspect --type image agentctx-base >/dev/null 2>&1; then
  container=$(buildah "${store[@]}" from scratch)
  buildah "${store[@]}" add --quiet "$container" "$folder/base" /
  buildah "${store[@]}" commit --quiet --rm "$container" agentctx-base
fi
buildah "${store[@]}" build --isolation chroot --pull-never --network host \
  --build-arg BASE=localhost/agentctx-base --format docker --tag agentctx "$project"

container=$(buildah "${store[@]}" from --pull-never localhost/agentctx)
root=$(buildah "${store[@]}" mount "$container")
rm -rf "$folder/volumes"
install -d -o 10001 -g 10001 -m 0700 "$folder/volumes/data"
install -d -o 10001 -g 10001 -m 0750 "$folder/volumes/run"

# The image's own environment and user; an entry point as a container runtime would start it.
inside() {
  systemd-nspawn --quiet --register=no --keep-unit --directory "$root" --read-only --private-network \
    --machine "agentctx-$1" --bind "$folder/volumes/data:/var/lib/agentctx" --bind "$folder/volumes/run:/run/agentctx" \
    /usr/bin/setpriv --reuid=10001 --regid=10001 --clear-groups --bounding-set=-all --no-new-privs \
    /usr/bin/env PATH=/opt/agentctx/bin:/usr/bin:/bin HOME=/var/lib/agentctx XDG_CACHE_HOME=/opt/cache \
    PYTHONDONTWRITEBYTECODE=1 AGENTCTX_DATA_DIR=/var/lib/agentctx AGENTCTX_SOCKET=/run/agentctx/agentctx.sock \
    agentctx "${@:2}" </dev/null
}
inside daemon serve >"$folder/image.log" 2>&1 &
daemon=$!
trap 'kill -TERM $daemon 2>/dev/null || true' EXIT
until [ -S "$folder/volumes/run/agentctx.sock" ]; do
  kill -0 $daemon || { cat "$folder/image.log"; exit 1; }
  sleep 1
done
inside save save knowledge --key deploy --wait "Deploy with make ship"
inside search search "how do we release" | grep "make ship"
inside health status
[ "$(stat -c %u "$folder/volumes/data/agentctx.db")" = 10001 ]
echo ok
