"""`agentctx doctor` as a user runs it: repairs of real damage, with the daemon running or stopped."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx.cli.checkup import Checkup, examine
from agentctx.doctor.catalog import CHECK_IDS, select
from agentctx.storage.offline import DATABASE_NAME
from agentctx.wire import CheckResult
from tests.doctor import damage
from tests.doctor.damage import damaged
from tests.end_to_end.daemon_process import DaemonProcess

MakeDaemon = Callable[..., DaemonProcess]
FAKE = '[embedding]\nprovider = "fake"\n'
KEY = "sk-secret"
ENTRY_TEXT = "the kettle must be descaled"


_OF_THIS_MACHINE = frozenset({"files.space", "files.filesystem", "socket.folder"})
"""Checks whose outcome a test can neither cause nor prevent."""


def doctor(daemon: DaemonProcess, *only: str, fix: bool = False) -> dict[str, CheckResult]:
    """Examine the daemon's folder with its config and socket, like the command."""
    checkup = Checkup(
        config=daemon.data_dir.parent / "agentctx.toml",
        data_dir=daemon.data_dir,
        socket=daemon.socket,
        ids=select(only),
        fix=fix,
    )
    reply = asyncio.run(examine(checkup))
    for secret in (KEY, ENTRY_TEXT):
        assert secret not in repr(reply)
    return {check.id: check for check in reply.checks}


def troubles(results: dict[str, CheckResult]) -> dict[str, str]:
    return {
        name: check.status
        for name, check in results.items()
        if check.status in {"warn", "fail"} and name not in _OF_THIS_MACHINE
    }


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> DaemonProcess:
    """Yield a daemon with two embedded entries."""
    started = make_daemon(config=FAKE).start()
    with started.client() as client:
        client.save_knowledge("first", "an entry that comes first")
        client.save_knowledge("tea", ENTRY_TEXT, wait="embedded")
    return started


def loosen(daemon: DaemonProcess) -> None:
    daemon.data_dir.chmod(0o755)
    (daemon.data_dir / DATABASE_NAME).chmod(0o644)


def test_the_command_prints_findings_and_sets_the_exit_code(daemon: DaemonProcess) -> None:
    command = [
        *(sys.executable, "-m", "agentctx", "--socket", str(daemon.socket), "doctor"),
        *("--config", str(daemon.data_dir.parent / "agentctx.toml"), "--data-dir", str(daemon.data_dir)),
        *("--skip", "files.space", "--skip", "files.filesystem"),
    ]
    well = subprocess.run([*command, "--json", "--strict"], capture_output=True, check=False, timeout=60)
    reply = json.loads(well.stdout)
    assert (well.returncode, reply["ok"], well.stderr) == (0, True, b"")
    assert len(reply["checks"]) == len(CHECK_IDS) - 2
    loosen(daemon)
    ill = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert ill.returncode == 1
    assert b"agentctx.db has 0644" in ill.stdout
    assert b"agentctx doctor --fix" in ill.stderr


def test_a_healthy_daemon_passes_every_check(daemon: DaemonProcess) -> None:
    results = doctor(daemon)
    assert tuple(results) == CHECK_IDS
    assert troubles(results) == {}


def test_a_stopped_daemon_is_examined_offline(daemon: DaemonProcess) -> None:
    daemon.stop()
    results = doctor(daemon)
    assert tuple(results) == CHECK_IDS
    assert troubles(results) == {"daemon.answers": "warn"}
    assert results["database.invariant"].status == "pass"


def test_nothing_is_created_before_the_first_start(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(config=FAKE)
    results = doctor(daemon, fix=True)
    assert troubles(results) == {"daemon.answers": "warn"}
    assert results["database.opens"].message == "nothing is saved yet"
    assert not daemon.data_dir.exists()


@pytest.mark.parametrize("is_up", [True, False])
def test_database_damage_is_found_and_repaired(daemon: DaemonProcess, is_up: bool) -> None:
    """Each kind of damage is tested separately in tests/doctor/test_examiner.py."""
    if not is_up:
        daemon.stop()
    for how in (damage.bury_everything, damage.leave_an_orphan, damage.lose_words):
        damaged(daemon.data_dir / DATABASE_NAME, how)
    found = {"database.words": "fail", "database.invariant": "fail", "queue.buried": "warn"}
    assert troubles(doctor(daemon, "database", "queue")) == found

    repaired = doctor(daemon, "database", "queue", fix=True)
    assert troubles(repaired) == {}
    assert {name for name, check in repaired.items() if check.fixed} == set(found)

    if not is_up:
        daemon.start()
    with daemon.client() as client:
        assert client.drain().pending == 0
        assert (client.queue().buried, client.status().vectors) == (0, 1)
    assert troubles(doctor(daemon)) == {}


def test_wrong_permissions_are_found_and_repaired(daemon: DaemonProcess) -> None:
    loosen(daemon)
    daemon.socket.chmod(0o666)
    found = {"files.folder": "fail", "files.permissions": "fail", "socket.file": "fail"}
    assert troubles(doctor(daemon)) == found
    assert list(doctor(daemon, "files.folder", fix=True)) == ["files.folder"]
    assert stat.S_IMODE((daemon.data_dir / DATABASE_NAME).stat().st_mode) == 0o644, "only what was chosen"
    assert troubles(doctor(daemon, fix=True)) == {}
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (daemon.data_dir, daemon.socket)]
    assert modes == [0o700, 0o600]
    assert stat.S_IMODE((daemon.data_dir / DATABASE_NAME).stat().st_mode) == 0o600
    with daemon.client() as client:
        assert client.search("kettle").results


def test_a_killed_daemon_is_reported_and_its_socket_removed(daemon: DaemonProcess) -> None:
    daemon.stop(signal.SIGKILL)
    results = doctor(daemon)
    assert troubles(results) == {
        "socket.file": "warn",
        "daemon.answers": "warn",
        "daemon.last_start": "warn",
    }
    assert "ended without stopping cleanly" in results["daemon.last_start"].message
    assert doctor(daemon, fix=True)["socket.file"].fixed == f"removed {daemon.socket}"
    assert not daemon.socket.exists()
    daemon.start()
    assert troubles(doctor(daemon)) == {}


def test_an_unresponsive_daemon_is_reported_with_its_pid(daemon: DaemonProcess) -> None:
    """The lock is taken, but nothing accepts connections on the socket."""
    daemon.socket.rename(daemon.socket.with_name("moved.sock"))
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(daemon.socket))
        results = doctor(daemon, "daemon", "database", fix=True)
    assert results["daemon.answers"].status == "fail"
    assert f"pid {daemon.pid}" in results["daemon.answers"].detail
    assert results["database.invariant"].status == "skip"


def test_a_daemon_on_another_socket_is_reported(daemon: DaemonProcess, tmp_path: Path) -> None:
    known, daemon.socket = daemon.socket, tmp_path / "b.sock"
    results = doctor(daemon, "daemon")
    assert results["daemon.answers"].status == "fail"
    assert f"--socket {known}" in results["daemon.answers"].hint


def test_the_daemon_of_another_folder_is_not_mistaken_for_this_one(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    real, daemon.data_dir = daemon.data_dir, tmp_path / "other"
    results = doctor(daemon, "daemon", "database")
    assert str(real) in results["daemon.answers"].detail
    assert results["database.opens"].message == "nothing is saved yet"


def test_a_failed_start_is_reported(daemon: DaemonProcess) -> None:
    daemon.stop()
    damaged(daemon.data_dir / DATABASE_NAME, damage.write_a_newer_schema)
    assert daemon.run_to_exit() == 78
    results = doctor(daemon, fix=True)
    assert troubles(results) == {
        "daemon.answers": "warn",
        "daemon.last_start": "warn",
        "database.schema": "fail",
    }
    assert "schema_too_new" in results["daemon.last_start"].message


def test_an_invalid_config_is_reported_before_the_daemon_reads_it(daemon: DaemonProcess) -> None:
    daemon.stop()
    file = daemon.data_dir.parent / "agentctx.toml"
    for config, found in WRONG_CONFIGS:
        file.write_text(config, encoding="utf-8")
        file.chmod(0o644)
        results = doctor(daemon, "config", "embedding", "database")
        assert troubles(results) == found, config
        # The data is examined even if the config is invalid.
        assert results["database.invariant"].status == "pass"


WRONG_CONFIGS: list[tuple[str, dict[str, str]]] = [
    ('[embedding]\nprovider = "opnai"\n', {"embedding.provider": "fail"}),
    ('[embeding]\nprovider = "none"\n', {"config.loads": "fail"}),
    ("[embedding", {"config.loads": "fail"}),
    (
        f'[embedding]\nprovider = "fake"\nmodel = "other"\napi_key = "{KEY}"\n',
        {"config.secrets": "warn", "embedding.space": "warn"},
    ),
    (FAKE + "[embedding.rag]\nmax_results = 500\n", {"rag.settings": "fail"}),
]
