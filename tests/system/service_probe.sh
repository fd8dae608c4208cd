# Inside the booted container: every line has to succeed. The last line of the output is `ok`.
set -euo pipefail
step() { printf '\n== %s\n' "$1"; }
status_text() { systemctl show agentctx.service --property=StatusText --value; }
main_pid() { systemctl show agentctx.service --property=MainPID --value; }

step "install"
agentctx service install
agentctx service status
systemd-analyze security agentctx.service --no-pager | tail -1

step "a client starts it, saves and searches with the embedded model"
systemctl stop agentctx.service
agentctx save knowledge --key deploy --wait "Deploy with make ship"
agentctx search "how do we release" | grep "make ship"
stat -c '%U %G %a' /run/agentctx/agentctx.sock | grep "agentctx agentctx 660"
[ "$(stat -c %a /var/lib/agentctx)" = 700 ]

step "who is not in the group cannot connect"
! setpriv --reuid=nobody --regid=nogroup --clear-groups agentctx status

step "reload: a good file, a broken file"
printf '[embedding.rag]\nmax_results = 1\n[vectors]\ntimeout_s = 3.0\n' >/etc/agentctx/config.toml
systemctl reload agentctx.service
status_text | grep "Needs a restart: vectors.timeout_s"
echo 'x = [' >/etc/agentctx/config.toml
systemctl reload agentctx.service
status_text | grep "was not reloaded"
agentctx search release | grep "make ship"
rm /etc/agentctx/config.toml

step "credentials"
printf 'sk-test' >/etc/agentctx/credentials/proxy__openai_key
systemctl restart agentctx.service
! tr '\0' '\n' <"/proc/$(main_pid)/environ" | grep sk-test
stat -c '%U %a' /run/credentials/agentctx.service/agentctx_proxy__openai_key | grep "agentctx 400"

step "the watchdog ends a daemon that is stopped, and it comes back"
stopped=$(main_pid)
kill -STOP "$stopped"
began=$(date +%s)
until [ "$(main_pid)" != "$stopped" ] && [ "$(systemctl is-active agentctx.service)" = active ]; do sleep 1; done
echo "back after $(($(date +%s) - began)) s"
agentctx search "make ship" | grep "make ship"

step "kill -9"
kill -KILL "$(main_pid)"
agentctx search "make ship" | grep "make ship"

step "without network"
agentctx service install --no-network
systemd-analyze security agentctx.service --no-pager | tail -1
agentctx save knowledge --key embedded --wait "Embedded without network" | grep "embedding done"
agentctx search "how do we release" | grep "make ship"
[ "$(tail -n +3 "/proc/$(main_pid)/net/dev" | wc -l)" = 1 ]
agentctx service install --network

step "an edited unit is left alone"
echo "# mine" >>/etc/systemd/system/agentctx.service
! agentctx service install
agentctx service install --force

step "uninstall keeps the data"
agentctx service uninstall
! agentctx service status
[ -e /var/lib/agentctx/agentctx.db ]
echo ok
