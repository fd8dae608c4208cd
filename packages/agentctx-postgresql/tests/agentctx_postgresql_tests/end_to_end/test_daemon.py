"""Real daemons whose database is a real PostgreSQL server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.cli.checkup import Checkup, examine
from agentctx.daemon.run import EXIT_CONFIG, EXIT_FAILED
from agentctx.errors import NotFound, StorageFailed
from agentctx.wire import DoctorReply
from agentctx_postgresql_tests.server import GUARDED, USER, RunningServer, running_server, why_unavailable
from tests.end_to_end.daemon_process import DaemonProcess

WAIT_S = 60.0
QUESTION = "When is the deploy window?"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server(durable=True) as running:
        running.sql("CREATE EXTENSION vector")
        yield running


@pytest.fixture
def start(
    make_daemon: Callable[..., DaemonProcess], server: RunningServer, tmp_path: Path
) -> Callable[[str], DaemonProcess]:
    config = f'[storage]\nurl = "{server.url()}"\n[embedding]\nprovider = "fake"\n'

    def start_daemon(name: str) -> DaemonProcess:
        return make_daemon(tmp_path / name, config=config).start()

    return start_daemon


def eventually(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def troubles(reply: DoctorReply) -> dict[str, str]:
    return {check.id: check.message for check in reply.checks if check.status in {"fail", "warn"}}


def test_two_daemons_share_one_memory(start: Callable[[str], DaemonProcess]) -> None:
    with start("one").client() as one, start("two").client() as two:
        saved = one.save_knowledge("deploy", "The deploy window is on Tuesday.", wait="embedded")
        assert saved.embedding == "done"
        (found,) = two.search(QUESTION).results
        assert (found.id, found.source_id) == (saved.id, "deploy")
        assert found.distance is not None, "it is found by meaning, too"
        again = two.save_knowledge("deploy", "The deploy window is on Friday.")
        assert (again.id, again.version) == (saved.id, 2)
        assert "Friday" in one.context(QUESTION).block
        two.forget(saved.id)
        with pytest.raises(NotFound):
            one.get(saved.id)
        assert one.search(QUESTION).results == []
        assert one.verify_audit().faults == 0
        assert troubles(two.doctor()) == {}


def test_a_daemon_survives_a_restart_of_its_server(
    start: Callable[[str], DaemonProcess], server: RunningServer
) -> None:
    daemon = start("one")
    with daemon.client() as client:
        saved = client.save_observation("s", "It was here before.")
        client.status()
        server.kill()
        with pytest.raises(StorageFailed) as refused:
            client.save_observation("s", "Nobody takes this.")
        assert refused.value.code == "storage_failed"
        status = client.status()
        assert status.database.fault is not None
        assert "does not answer" in status.database.fault
        assert "does not answer" in troubles(client.doctor())["database.integrity"]
        server.start()
        eventually(lambda: client.status().database.fault is None)
        client.save_observation("s", "And this after.")
        assert client.get(saved.id).content == "It was here before."
    assert daemon.stop() == 0
    with daemon.start().client() as client:
        assert [entry.content for entry in client.list().entries] == [
            "And this after.",
            "It was here before.",
        ]
    assert "daemon_failed" not in daemon.events()


async def test_doctor_follows_the_daemons_engine_where_only_the_daemon_knows_it(
    make_daemon: Callable[..., DaemonProcess],
    server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its settings are not in the doctor's file or environment."""
    config = f'[storage]\nurl = "{server.url()}"\n[embedding]\nprovider = "fake"\n'
    daemon = make_daemon(tmp_path / "one", config=config).start()
    monkeypatch.setenv("XDG_STATE_HOME", str(daemon.state_home))
    empty = tmp_path / "empty.toml"
    empty.touch()
    checkup = Checkup(
        config=empty,
        data_dir=daemon.data_dir,
        socket=daemon.socket,
        ids=("files.database", "database.opens", "backup.age"),
    )
    checks = {check.id: check for check in (await examine(checkup)).checks}
    assert {name: check.status for name, check in checks.items()} == {
        "files.database": "skip",
        "database.opens": "pass",
        "backup.age": "skip",
    }
    assert "the server's operator backs it up" in checks["backup.age"].message
    daemon.stop()
    stopped = {check.id: check for check in (await examine(checkup)).checks}["files.database"]
    assert (stopped.status, "set storage.url" in stopped.hint) == ("fail", True)


class TestADaemonThatCannotStart:
    """The daemon exits with a code that decides whether systemd restarts it, and prints the next step."""

    def refused(self, daemon: DaemonProcess, code: int) -> dict[str, Any]:
        assert daemon.run_to_exit() == code
        (line,) = (line for line in daemon.log if line["event"] == "cannot_start")
        return line

    def test_a_wrong_password_is_a_config_error(
        self, make_daemon: Callable[..., DaemonProcess], server: RunningServer, tmp_path: Path
    ) -> None:
        server.sql(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
        password = tmp_path / "password"
        password.write_text("wrong-hush")
        url = server.url().replace(f"{USER}@", f"{GUARDED}@")
        daemon = make_daemon(
            tmp_path / "one", config=f'[storage]\nurl = "{url}"\npassword_file = "{password}"\n'
        )
        line = self.refused(daemon, EXIT_CONFIG)
        assert "rejects the user or the password" in line["problem"]
        assert "storage.password_file" in line["hint"]
        assert "hush" not in str(daemon.log)

    def test_an_unreachable_server_is_worth_a_retry(
        self, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
    ) -> None:
        daemon = make_daemon(
            tmp_path / "one", config='[storage]\nurl = "postgresql://a@/b?host=/nonexistent"\n'
        )
        line = self.refused(daemon, EXIT_FAILED)
        assert line["code"] == "storage_failed"
        assert "does not answer" in line["problem"]
        assert "storage.url" in line["hint"]
