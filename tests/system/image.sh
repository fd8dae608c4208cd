#!/usr/bin/env bash
# Builds the Dockerfile on a Debian root and runs the image read-only, without network. See README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
folder=$(mkdir -p "${1:?folder to work in}" && cd "$1" && pwd)
. "$here/debian_root.sh"

# vfs needs no mount of its own, so this works inside a container.
store=(--root "$folder/images" --runroot "$folder/images-run" --storage-driver vfs)
make_base "$folder/base" python3-venv
if ! buildah "${store[@]}" inspect --type image agentctx-base >/dev/null 2>&1; then
  container=$(buildah "${store[@]}" from scratch)
  buildah "${store[@]}" add --quiet "$container" "$folder/base" /
  buildah "${store[@]}" commit --quiet --rm "$container" agentctx-base
fi
buildah "${store[@]}" build --isolation chroot --pull-never --network host \
  --build-arg BASE=localhost/agentctx-base --format docker --tag agentctx "$project"

container=$(buildah "${store[@]}" from --pull-never localhost/agentctx)
root=$(buildah "${store[@]}" mount "$container")
finish() {
  [ -z "${daemon:-}" ] || first_process "$daemon" | xargs --no-run-if-empty kill -KILL
  buildah "${store[@]}" rm "$container" >/dev/null
}
trap finish EXIT
rm -rf "$folder/volumes"
install -d -o 10001 -g 10001 -m 0700 "$folder/volumes/data"
install -d -o 10001 -g 10001 -m 0750 "$folder/volumes/run"

# What the image says of itself is what is run: one word a line.
config() {
  buildah "${store[@]}" inspect --type image localhost/agentctx |
    python3 -c 'import json, sys; print(*eval(sys.argv[1], {"it": json.load(sys.stdin)["Docker"]["config"]}), sep="\n")' "$1"
}
readarray -t environment < <(config 'it["Env"]')
readarray -t entry_point < <(config 'it["Entrypoint"]')
readarray -t command < <(config 'it["Cmd"]')
readarray -t health < <(config 'it["Healthcheck"]["Test"][1:]')
user=$(config '[it["User"]]')
[ "$user" = 10001:10001 ]

# inside NAME COMMAND...: as a container runtime would start it.
inside() {
  systemd-nspawn --quiet --register=no --keep-unit --directory "$root" --read-only --private-network \
    --machine "agentctx-$1" --bind "$folder/volumes/data:/var/lib/agentctx" --bind "$folder/volumes/run:/run/agentctx" \
    /usr/bin/setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --bounding-set=-all --no-new-privs \
    /usr/bin/env --ignore-environment "${environment[@]}" "${@:2}" </dev/null
}
# The process that is number 1 inside a container: below nspawn, which is below the shell in the background.
first_process() {
  local child
  for child in $(pgrep -P "$1"); do
    if [ "$(awk '/^NSpid:/ { print $NF }' "/proc/$child/status")" = 1 ]; then echo "$child"; else first_process "$child"; fi
  done
}
took() { awk -v what="$1" -v began="$2" -v ended="$EPOCHREALTIME" 'BEGIN { printf "%s: %.1f s\n", what, ended - began }'; }

began=$EPOCHREALTIME
inside daemon "${entry_point[@]}" "${command[@]}" >"$folder/image.log" 2>&1 &
daemon=$!
until grep -q ready "$folder/image.log" 2>/dev/null; do
  kill -0 $daemon || { cat "$folder/image.log"; exit 1; }
  sleep 0.1
done
took "ready" "$began"
began=$EPOCHREALTIME
inside save agentctx save knowledge --key deploy --wait "Deploy with make ship"
took "saved and embedded" "$began"
inside search agentctx search "how do we release" | grep "make ship"
began=$EPOCHREALTIME
inside health "${health[@]}"
took "health check" "$began"
[ "$(stat -c %u "$folder/volumes/data/agentctx.db")" = 10001 ]
if grep -i "error\|denied" "$folder/image.log"; then exit 1; fi
# As `docker stop` does it: the stop signal for the container's first process.
container_pid=$(first_process "$daemon")
kill -TERM "$container_pid"
wait "$daemon"
if inside health "${health[@]}" 2>/dev/null; then echo "healthy without a daemon"; exit 1; fi
for part in "" /opt/agentctx; do du -sh "$root$part" | sed "s#$root#image: #"; done
echo ok
