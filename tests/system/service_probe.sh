# Inside the booted container: every line has to succeed. The last line of the output is `ok`.
set -euo pipefail
step() { printf '\n== %s (at %s s)\n' "$1" "$SECONDS"; }
# `! command` would not end the script.
fails() { ! "$@" || { echo "did not fail: $*"; exit 1; }; }
timed() {
  local began=$EPOCHREALTIME
  "$@"
  awk -v began="$began" -v ended="$EPOCHREALTIME" 'BEGIN { printf "took %.1f s\n", ended - began }'
}
# By meaning: no word of the question is in the text.
found_by_meaning() { agentctx search "how do we release" | grep "make ship"; }
# wait_for "what" COMMAND...: tells after how many seconds it succeeded, and fails after a minute.
wait_for() {
  local began=$EPOCHREALTIME deadline=$((SECONDS + 60))
  until "${@:2}" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { echo "not within a minute: $1"; return 1; }
    sleep 0.1
  done
  awk -v what="$1" -v began="$began" -v ended="$EPOCHREALTIME" 'BEGIN { printf "%s after %.1f s\n", what, ended - began }'
}
# The page /systemd.md is followed word by word: the Nth shell block of a section.
sudo() { "$@"; }
block() {
  awk -v section="## $1" -v wanted="$2" '
    /^## / { inside = $0 == section }
    inside && /^```sh$/ { number++; taken = 1; next }
    /^```$/ { taken = 0 }
    taken && number == wanted' /systemd.md
}
status_says() { systemctl show agentctx.service --property=StatusText --value | grep "$1"; }
main_pid() { systemctl show agentctx.service --property=MainPID --value; }

step "install, as the page says"
cd /root/agentctx
timed eval "$(block "For the whole machine" 1)"
agentctx service status
systemd-analyze security agentctx.service --no-pager | tail -1

step "a client starts it, saves and searches with the embedded model"
systemctl stop agentctx.service
timed agentctx save knowledge --key deploy --wait "Deploy with make ship"
found_by_meaning
stat -c '%U %G %a' /run/agentctx/agentctx.sock | grep "agentctx agentctx 660"
[ "$(stat -c %a /var/lib/agentctx)" = 700 ]

step "who is not in the group cannot connect"
stranger=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fails "${stranger[@]}" agentctx --socket /run/agentctx/agentctx.sock status
fails "${stranger[@]}" ls /run/agentctx
fails "${stranger[@]}" ls /var/lib/agentctx

step "a user with a grant, one in the group without, one with neither"
useradd --create-home alice
useradd --create-home --groups agentctx bob
useradd --create-home carol
as() { setpriv --reuid="$1" --regid="$1" --init-groups env --ignore-environment HOME="/home/$1" PATH="$PATH" "${@:2}"; }
eval "$(block "For the whole machine" 2)"
as alice agentctx save knowledge --namespace team --key standup --wait "The standup is at nine"
as alice agentctx search --namespace team standup | grep "at nine"
as alice agentctx doctor
fails as alice agentctx get deploy
fails as bob agentctx search standup 2>&1 | grep "no grant"
fails as carol agentctx search standup 2>&1 | grep "may not enter /run/agentctx"
rm /etc/agentctx/config.toml
systemctl restart agentctx.service

step "reload: a good file, a broken file"
printf '[embedding.rag]\nmax_results = 1\n[vectors]\nmemory_mb = 3\n' >/etc/agentctx/config.toml
systemctl reload agentctx.service
wait_for "the status" status_says "Needs a restart: vectors.memory_mb"
echo 'x = [' >/etc/agentctx/config.toml
systemctl reload agentctx.service
wait_for "the status" status_says "was not reloaded"
agentctx search release | grep "make ship"
rm /etc/agentctx/config.toml

step "credentials"
printf 'sk-test' >/etc/agentctx/credentials/proxy__openai_key
systemctl restart agentctx.service
fails grep --text sk-test "/proc/$(main_pid)/environ"
stat -c '%U %a' /run/credentials/agentctx.service/agentctx_proxy__openai_key | grep "agentctx 400"

step "the watchdog ends a daemon that is stopped, and it comes back"
stopped=$(main_pid)
kill -STOP "$stopped"
another_runs() { [ "$(main_pid)" != "$stopped" ] && [ "$(main_pid)" != 0 ] && systemctl is-active agentctx.service; }
wait_for "back" another_runs
agentctx search "make ship" | grep "make ship"

step "kill -9"
kill -KILL "$(main_pid)"
wait_for "answers again" agentctx search "make ship"
agentctx search "make ship" | grep "make ship"

step "restart"
timed systemctl restart agentctx.service
agentctx search "make ship" | grep "make ship"
wait_for "by meaning" found_by_meaning

step "scheduled backups, as the page says: old ones go, and one can be restored"
set_backup() { sed -i "s|^#* *$1 = .*|$1 = $2|" /etc/agentctx/config.toml; }
scheduled() { ls /srv/agentctx-backups | grep '^agentctx-'; }
agentctx config init /etc/agentctx/config.toml
eval "$(block Backups 1)"
set_backup interval_h 24.0
set_backup folder '"/srv/agentctx-backups"'
set_backup keep 7
eval "$(block Backups 2)"
wait_for "the first backup" scheduled
[ "$(scheduled | wc -l)" = 1 ]
journalctl --unit agentctx --output cat | grep '"event": *"backed_up"'
set_backup interval_h 0.0005
set_backup keep 2
first=$(scheduled)
systemctl restart agentctx.service
first_is_gone() { ! scheduled | grep -x "$first"; }
wait_for "two newer backups" first_is_gone
[ "$(scheduled | wc -l)" -le 3 ] && [ -e /srv/agentctx-backups/now.db ]
agentctx doctor --only backup.age
set_backup interval_h 0
systemctl restart agentctx.service
agentctx save knowledge --key late --wait "Saved after the last backup"
systemctl stop agentctx.socket agentctx.service
agentctx restore "/srv/agentctx-backups/$(scheduled | tail -1)" --data-dir /var/lib/agentctx
agentctx service install
agentctx get deploy | grep "make ship"
fails agentctx get late
rm /etc/agentctx/config.toml

step "without network"
agentctx service install --no-network
systemd-analyze security agentctx.service --no-pager | tail -1
agentctx save knowledge --key embedded --wait "Embedded without network" | grep "embedding done"
wait_for "by meaning" found_by_meaning
[ "$(tail -n +3 "/proc/$(main_pid)/net/dev" | wc -l)" = 1 ]
agentctx service install --network

step "for one user, with that user's data"
useradd --create-home ann
# What PAM does where libpam-systemd is installed.
mkdir /etc/systemd/system/user@.service.d
printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%i\n' >/etc/systemd/system/user@.service.d/runtime.conf
systemctl daemon-reload
systemctl start "user@$(id -u ann).service"
as_ann() {
  setpriv --reuid=ann --regid=ann --init-groups \
    env --ignore-environment HOME=/home/ann PATH="$PATH" XDG_RUNTIME_DIR="/run/user/$(id -u ann)" "$@"
}
as_ann agentctx service install --user
as_ann agentctx save knowledge --key tea --wait "Descale the kettle on Monday" | grep "embedding done"
as_ann agentctx search "limescale in the water boiler" | grep kettle
as_ann agentctx search "make ship" >/tmp/found
fails grep "make ship" /tmp/found
stat -c '%U %a' "/run/user/$(id -u ann)/agentctx/agentctx.sock" | grep "ann 600"
as_ann agentctx service status --user
as_ann agentctx service uninstall --user
[ -e /home/ann/.local/share/agentctx/agentctx.db ]

step "an edited unit is left alone"
echo "# mine" >>/etc/systemd/system/agentctx.service
fails agentctx service install
agentctx service install --force

step "update and roll back, as the page says"
mv dist OLD
old_version=$(agentctx --version)
# The same as a later version, whose database the older one refuses to open.
sed -i 's/^__version__ = .*/__version__ = "99.0.0"/' agentctx/__init__.py
echo 'CREATE TABLE later (id INTEGER PRIMARY KEY);' >migrations/9999_later.sql
make dist >/dev/null
running=$(main_pid)
timed eval "$(block Update 1)"
[ "$(main_pid)" != "$running" ]
agentctx service status | grep "current .*agentctx.service"
/opt/agentctx/bin/python -c 'import agentctx
with agentctx.Client() as client:
    client.status()
    assert client.daemon_version == agentctx.__version__ == "99.0.0", client.daemon_version'
agentctx search "make ship" | grep "make ship"
agentctx save knowledge --key since --wait "Saved since the update"
timed eval "$(block "Roll back" 1)"
[ "$(agentctx --version)" = "$old_version" ]
agentctx doctor
agentctx get deploy | grep "make ship"
fails agentctx get since

step "remove, as the page says: the data goes last"
blocks=$(block Remove 1)
eval "$(head -1 <<<"$blocks")"
fails agentctx service status
[ -e /var/lib/agentctx/agentctx.db ]
eval "$(tail -n +2 <<<"$blocks")"
[ ! -e /opt/agentctx ] && [ ! -e /var/lib/agentctx ] && [ ! -e /etc/agentctx ]
echo ok
