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
# The blocks of the page /systemd.md. block "SECTION N" [LANGUAGE]: the lines of one, at least one.
block() {
  awk -v wanted="$1" -v fence="\`\`\`${2:-sh}" '
    /^## / { section = substr($0, 4); number = 0 }
    /^```$/ { taken = 0 }
    taken
    $0 == fence { taken = section " " ++number == wanted }' /systemd.md | grep ''
}
# The "SECTION N" of every shell block.
all_blocks() { awk '/^## / { section = substr($0, 4); number = 0 } /^```sh$/ { print section, ++number }' /systemd.md; }
# as USER COMMAND: in a login of its own, with its groups and its session.
as() { su --login "$1" --command "$2"; }
# follow "SECTION N" [USER]: runs the block word by word, as the administrator in the clone, unless a user is named.
follow() {
  block "$1" >/tmp/block
  echo "$1" >>/tmp/followed
  if [ -n "${2:-}" ]; then as "$2" "bash -ex /tmp/block"; else as sam "cd agentctx && bash -ex /tmp/block"; fi
}
status_says() { systemctl show agentctx.service --property=StatusText --value | grep "$1"; }
main_pid() { systemctl show agentctx.service --property=MainPID --value; }

step "install, as the page says"
timed follow "For the whole machine 1"
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
follow "For the whole machine 2"
follow "For the whole machine 3"
as alice 'agentctx save knowledge --namespace team --key standup --wait "The standup is at nine"'
as alice "agentctx search --namespace team standup" | grep "at nine"
as alice "agentctx save knowledge --namespace git:example.org/shop --key prices 'In cents'"
as alice "agentctx doctor"
for command in status "queue status" "backup /tmp/alice.db" "get deploy"; do
  fails as alice "agentctx $command" 2>&1 | grep "Permission denied"
done
fails as bob "agentctx search standup" 2>&1 | grep "Permission denied: you have no grant on this daemon"
fails as carol "agentctx search standup" 2>&1 | grep "Permission denied: you may not enter /run/agentctx"
fails as bob "agentctx doctor"
fails as carol "agentctx doctor"

step "settings, as the page says: a good file, a broken file"
cp /etc/agentctx/config.toml /tmp/good.toml
printf '[embedding.rag]\nmax_results = 1\n[vectors]\nmemory_mb = 3\n' >/etc/agentctx/config.toml
follow "Settings 1"
wait_for "the status" status_says "Needs a restart: vectors.memory_mb"
echo 'x = [' >/etc/agentctx/config.toml
fails follow "Settings 1"
systemctl reload agentctx.service
wait_for "the status" status_says "was not reloaded"
agentctx search release | grep "make ship"
cp /tmp/good.toml /etc/agentctx/config.toml

step "keys, as the page says"
echo "sk-test" | follow "Keys 1"
fails grep --text sk-test "/proc/$(main_pid)/environ"
stat -c '%U %a' /run/credentials/agentctx.service/agentctx_embedding__api_key | grep "agentctx 400"
agentctx search "make ship" | grep "make ship"
agentctx doctor
rm /etc/agentctx/credentials/embedding__api_key

step "logs, as the page says"
# It follows the log until the machine stops.
follow "Logs 1" >/tmp/logs 2>&1 &
wait_for "the log" grep '"event": *"ready"' /tmp/logs
grep "Active: active (running)" /tmp/logs

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
set_lines() { while read -r line; do sed -i "s|^#* *${line%% = *} = .*|$line|" /etc/agentctx/config.toml; done; }
scheduled() { ls /srv/agentctx-backups | grep '^agentctx-'; }
follow "Backups 1"
block "Backups 1" toml | grep = | set_lines
follow "Backups 2"
wait_for "the first backup" scheduled
[ "$(scheduled | wc -l)" = 1 ]
journalctl --unit agentctx --output cat | grep '"event": *"backed_up"'
printf 'interval_h = 0.0005\nkeep = 2\n' | set_lines
first=$(scheduled)
systemctl restart agentctx.service
first_is_gone() { ! scheduled | grep -x "$first"; }
wait_for "two newer backups" first_is_gone
[ "$(scheduled | wc -l)" -le 3 ] && [ -e /srv/agentctx-backups/now.db ]
agentctx doctor --only backup.age
echo 'interval_h = 0' | set_lines
systemctl restart agentctx.service
agentctx save knowledge --key late --wait "Saved after the last backup"
systemctl stop agentctx.socket agentctx.service
agentctx restore "/srv/agentctx-backups/$(scheduled | tail -1)" --data-dir /var/lib/agentctx
agentctx service install
agentctx get deploy | grep "make ship"
fails agentctx get late

step "without network, as the page says"
follow "Without network 1"
systemd-analyze security agentctx.service --no-pager | tail -1
agentctx save knowledge --key embedded --wait "Embedded without network" | grep "embedding done"
wait_for "by meaning" found_by_meaning
[ "$(tail -n +3 "/proc/$(main_pid)/net/dev" | wc -l)" = 1 ]
agentctx service install --network

step "for one user, with that user's data, as the page says"
useradd --create-home ann
follow "For you alone 1" ann
[ -e /var/lib/systemd/linger/ann ]
as ann 'agentctx save knowledge --key tea --wait "Descale the kettle on Monday"' | grep "embedding done"
as ann 'agentctx search "limescale in the water boiler"' | grep kettle
as ann 'agentctx search "make ship"' >/tmp/found
fails grep "make ship" /tmp/found
stat -c '%U %a' "/run/user/$(id -u ann)/agentctx/agentctx.sock" | grep "ann 600"
as ann "agentctx service status --user"
as ann "agentctx service uninstall --user"
[ -e /home/ann/.local/share/agentctx/agentctx.db ]

step "data elsewhere, in a drop-in, as the page says"
systemctl stop agentctx.socket agentctx.service
cp -a /var/lib/agentctx /srv/agentctx
block "Change the units 1" ini >/etc/systemd/system/agentctx.service.d/data.conf
systemctl daemon-reload
systemctl start agentctx.socket agentctx.service
agentctx save knowledge --key elsewhere --wait "Saved in the other folder"
agentctx doctor
systemctl stop agentctx.socket agentctx.service
rm -r /srv/agentctx /etc/systemd/system/agentctx.service.d/data.conf
systemctl daemon-reload
systemctl start agentctx.socket agentctx.service
fails agentctx get elsewhere

step "an edited unit is left alone"
echo "# mine" >>/etc/systemd/system/agentctx.service
fails agentctx service install
agentctx service install --force
rm /etc/systemd/system/agentctx.service.edited

step "a service that is stopped or has failed is named, to root and to its users"
says() { "$@" 2>&1 | tr -s ' \n' ' '; }
systemctl stop agentctx.socket agentctx.service
for command in status "search standup"; do
  fails as alice "agentctx $command" 2>&1 | grep "agentctx.service: stopped"
  fails as sam "sudo agentctx $command" 2>&1 | grep "agentctx.service: stopped"
done
fails as sam "sudo agentctx doctor" >/tmp/doctor
says cat /tmp/doctor | grep "agentctx.service: stopped.*sudo systemctl start agentctx"
grep "/var/lib/agentctx" /tmp/doctor
fails grep "agentctx serve" /tmp/doctor
mkdir /tmp/away && mv /var/lib/agentctx/agentctx.db* /tmp/away/
fails systemctl start agentctx
fails as sam "sudo agentctx doctor" >/tmp/doctor
says cat /tmp/doctor | grep "agentctx.service: failed, exit 78: /var/lib/agentctx/agentctx.db is missing"
fails grep "agentctx serve" /tmp/doctor
fails as alice "agentctx search --namespace team standup" 2>&1 | grep "failed, exit 78: /var/lib/agentctx/agentctx.db is missing"
mv /tmp/away/* /var/lib/agentctx/
as sam "sudo systemctl start agentctx"
agentctx search "make ship" | grep "make ship"
as sam "sudo agentctx config show" 2>&1 >/dev/null | grep /etc/agentctx/config.toml
as alice "agentctx config show" >/tmp/shown 2>&1
fails grep "/etc/agentctx/config.toml" /tmp/shown

step "update to a build with another schema and another dependency, as the page says"
# Upstream changes, with the same version number: the page's `git pull` brings it.
as sam "set -e; cd /srv/upstream
sed -i 's/^dependencies = \[/dependencies = [\"iniconfig\",/' pyproject.toml
newest=\$(ls migrations/sqlite | tail -1)
echo 'CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;' >migrations/sqlite/\$(printf %04d \$((10#\${newest%%_*} + 1)))_later.sql
git add . && git -c user.name=Sam -c user.email=sam@localhost commit --quiet --message later"
commit_in() { as sam "git -C $1 rev-parse --short=12 HEAD"; }
old_commit=$(commit_in agentctx) running=$(main_pid)
version=$(agentctx --version | cut -d' ' -f2)
daemon_is() {
  [ "$(agentctx --version)" = "agentctx $version ($1)" ]
  agentctx status | grep "^daemon .*($1)"
  agentctx doctor --only daemon.version | grep "both are $version ($1)"
}
daemon_is "$old_commit"
fails /opt/agentctx/bin/python -c "import iniconfig"
timed follow "Update 1"
[ "$(main_pid)" != "$running" ]
agentctx service status | grep "current .*agentctx.service"
[ "$(commit_in agentctx)" != "$old_commit" ]
daemon_is "$(commit_in agentctx)"
/opt/agentctx/bin/python -c "import iniconfig"
/opt/agentctx/bin/pip check
agentctx search "make ship" | grep "make ship"
agentctx save knowledge --key since --wait "Saved since the update"

step "roll back, as the page says; without its restore the older version refuses the database"
block "Roll back 1" | grep -v "agentctx restore" >/tmp/block
fails as sam "cd agentctx && bash -ex /tmp/block"
journalctl --unit agentctx --output cat | grep schema_too_new
fails agentctx doctor --data-dir /var/lib/agentctx --only database
timed follow "Roll back 1"
daemon_is "$old_commit"
agentctx get deploy | grep "make ship"
fails agentctx get since
systemctl stop agentctx.socket agentctx.service
agentctx restore /var/lib/agentctx/agentctx.db.schema-*.bak --data-dir /var/lib/agentctx
agentctx service install
agentctx get deploy | grep "make ship"
daemon_is "$old_commit"

step "a program that was installed without a restart is told from the running one"
as sam "sudo /opt/agentctx/bin/pip install --quiet --force-reinstall --no-deps agentctx/dist/agentctx_daemon-*.whl"
fails agentctx doctor --strict --only daemon.version 2>&1 | tr -s ' \n' ' ' | grep "the daemon is $version ($old_commit), this command $version .*Restart the daemon"
agentctx status | grep "restart the daemon"
agentctx service status | grep "outdated .*agentctx.service"

step "remove, as the page says: the data goes last"
follow "Remove 1"
fails ls /opt/agentctx /usr/local/bin/agentctx
[ -e /var/lib/agentctx/agentctx.db ] && [ -e /etc/agentctx/config.toml ]
follow "Remove 2"
[ "$(find / -xdev -not -path '/home/*' -not -path '/srv/*' -name '*agentctx*')" = /etc/systemd/system/agentctx.service.d ]

step "every block of the page was followed"
diff <(all_blocks | grep --invert-match "^On macOS" | sort) <(sort -u /tmp/followed)
echo ok
