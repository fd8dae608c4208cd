"""Real users of this machine on the real socket, identified by the kernel alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.daemon_process import DaemonProcess
from tests.live_files import modes

READER, WRITER, MEMBER, STRANGER, NOBODY = 61_001, 61_002, 61_003, 61_004, 65_534
GROUP = 61_100

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: requests of other users; only root can become them"
)

CONFIG = f"""
[embedding]
provider = "none"
[server]
socket_mode = "0660"
[access]
grants = [
  {{ uid = {READER}, namespaces = ["default"], rights = "read" }},
  {{ uid = {WRITER}, namespaces = ["default"], rights = "write" }},
]
"""

ASK = """
import encodings.idna, http.client, json, os, socket, sys
uid, path, method, target, body, headers = json.loads(sys.argv[1])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
connection = Unix("agentctx")
try:
    connection.request(method, target, body and json.dumps(body), headers)
    reply = connection.getresponse()
    print(json.dumps([reply.status, reply.read().decode(), dict(reply.getheaders())]))
except PermissionError:
    print(json.dumps([0, "{}", {}]))
"""
"""Becomes another user once everything is imported, who may not read the interpreter's folder."""


EXAMINE = """
import asyncio, encodings.idna, json, os, pathlib, sys
uid, path, home = json.loads(sys.argv[1])
from agentctx.cli.checkup import Checkup, examine
import agentctx.client, agentctx.cli.doctor
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
for name in [name for name in os.environ if name.startswith(("AGENTCTX_", "XDG_"))]:
    del os.environ[name]
os.environ["HOME"] = home
os.chdir("/")
reply = asyncio.run(examine(Checkup(socket=pathlib.Path(path))))
code = agentctx.cli.doctor.exit_code(reply.summary, strict=True)
print(json.dumps([code, {each.id: [each.status, each.message] for each in reply.checks}]))
"""


class Machine:
    """A daemon to whose socket everybody may connect."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon

    def ask(
        self,
        uid: int,
        method: str,
        target: str,
        body: Any = None,
        **headers: str,
    ) -> tuple[int, Any, dict[str, str]]:
        request = json.dumps([uid, str(self.daemon.socket), method, target, body, headers])
        done = subprocess.run(
            [sys.executable, "-I", "-c", ASK, request],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        status, text, answered = json.loads(done.stdout)
        return status, json.loads(text), {name.lower(): value for name, value in answered.items()}

    def doctor(self, uid: int) -> tuple[int, dict[str, list[str]]]:
        """Run `agentctx doctor --strict` as another user; return exit code and findings by check."""
        home = self.daemon.data_dir.parent / f"home-{uid}"
        home.mkdir()
        os.chown(home, uid, uid)
        request = json.dumps([uid, str(self.daemon.socket), str(home)])
        os.chown(self.daemon.socket, 0, uid)
        self.daemon.socket.chmod(0o660)
        done = subprocess.run(
            [sys.executable, "-c", EXAMINE, request], check=False, capture_output=True, text=True, timeout=60
        )
        self.daemon.socket.chmod(0o666)
        assert done.returncode == 0, done.stderr
        code, checks = json.loads(done.stdout)
        return code, checks


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        daemon = DaemonProcess(folder, config=CONFIG).start()
        try:
            daemon.socket.chmod(0o666)
            yield Machine(daemon)
        finally:
            daemon.end()


SAVE = {"collection": "knowledge", "key": "k", "content": "the password"}


def test_each_user_can_do_what_is_granted(machine: Machine) -> None:
    status, saved, _ = machine.ask(WRITER, "POST", "/v1/entries", SAVE)
    assert status == 201
    status, entry, headers = machine.ask(READER, "GET", f"/v1/entries/{saved['id']}")
    assert (status, entry["principal"]) == (200, WRITER)
    assert "x-agentctx-version" in headers
    assert machine.ask(READER, "POST", "/v1/entries", SAVE)[0] == 403
    assert machine.ask(WRITER, "GET", "/v1/status")[0] == 403
    assert machine.ask(WRITER, "POST", "/v1/search", {"query": "a", "namespace": "other"})[0] == 403
    assert machine.ask(0, "GET", "/v1/status")[0] == 200


@pytest.mark.parametrize("uid", [STRANGER, NOBODY])
def test_a_stranger_learns_only_whether_it_is_up(machine: Machine, uid: int) -> None:
    for path in ("/healthz", "/readyz"):
        status, body, headers = machine.ask(uid, "GET", path)
        assert (status, body) == (200, {"status": "ok"})
        assert "x-agentctx-version" not in headers
    for target in ("/v1/status", "/v1/entries", "/openapi.json", "/metrics", "/proxy/openai/v1/models"):
        status, body, headers = machine.ask(uid, "GET", target)
        assert (status, body["error"]["message"]) == (
            403,
            "Permission denied: you have no grant on this daemon.",
        )
        assert "x-agentctx-version" not in headers


def test_headers_and_bodies_do_not_change_the_principal(machine: Machine) -> None:
    pretending = {"X-Agentctx-Uid": "0", "X-Forwarded-User": "root", "Authorization": "Bearer root"}
    assert machine.ask(STRANGER, "GET", "/v1/entries", **pretending)[0] == 403
    body = {**SAVE, "key": "p", "agent": "root"}
    status, saved, _ = machine.ask(WRITER, "POST", "/v1/entries", body, **pretending)
    assert status == 201
    _, entry, _ = machine.ask(READER, "GET", f"/v1/entries/{saved['id']}")
    assert entry["principal"] == WRITER


def test_a_reload_grants_and_takes_away(machine: Machine) -> None:
    assert machine.ask(MEMBER, "GET", "/v1/entries")[0] == 403
    config = machine.daemon.socket.parent / "agentctx.toml"
    before = config.read_text(encoding="utf-8")
    more = f'  {{ gid = {GROUP}, namespaces = ["default"], rights = "read" }},\n'
    config.write_text(before.replace("grants = [\n", f"grants = [\n{more}").replace(str(READER), str(MEMBER)))
    machine.daemon.log.clear()
    os.kill(machine.daemon.pid, 1)
    machine.daemon.wait_for("reloaded")
    # The line is logged before the settings are taken over, in one step of the loop.
    assert machine.ask(MEMBER, "GET", "/v1/entries")[0] == 200
    assert machine.ask(READER, "GET", "/v1/entries")[0] == 403


def test_by_default_nobody_else_can_connect_at_all() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        daemon = DaemonProcess(folder, config='[embedding]\nprovider = "none"\n').start()
        try:
            assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
            assert stat.S_IMODE(daemon.data_dir.stat().st_mode) == 0o700
            assert set(modes(daemon.data_dir).values()) == {0o600}
            assert Machine(daemon).ask(STRANGER, "GET", "/healthz")[0] == 0
        finally:
            daemon.end()


def test_doctor_tells_a_user_with_a_grant_that_all_is_well_and_what_it_may_not_examine(
    machine: Machine,
) -> None:
    code, checks = machine.doctor(WRITER)
    assert code == 0, checks
    assert checks["daemon.answers"][0] == "pass"
    assert "you may use it" in checks["daemon.answers"][1]
    assert checks["socket.file"][0] == "pass"
    skipped = {check: message for check, (status, message) in checks.items() if status == "skip"}
    assert skipped.pop("config.secrets") == "no config file"
    skipped = {check: message for check, message in skipped.items() if not check.startswith("connections.")}
    assert set(skipped.values()) == {"only admins of the daemon may examine this"}
    assert skipped.keys() >= {
        "daemon.version",
        "files.folder",
        "daemon.last_start",
        "database.opens",
        "queue.backlog",
    }


def test_doctor_tells_a_stranger_that_a_grant_is_missing_and_not_that_no_daemon_runs(
    machine: Machine,
) -> None:
    code, checks = machine.doctor(STRANGER)
    assert (code, checks["daemon.answers"][0]) == (1, "fail")
    assert "has no grant" in checks["daemon.answers"][1]
    assert {check for check, (status, _) in checks.items() if status in {"warn", "fail"}} == {
        "daemon.answers"
    }
