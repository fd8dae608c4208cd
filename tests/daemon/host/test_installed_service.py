"""What systemd says of the machine's service, and whose daemon that is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentctx.client.transport import ClosedToUser, ConnectionDropped, NotListening
from agentctx.daemon.host import installed_service
from agentctx.daemon.host.installed_service import (
    explained,
    follow,
    is_meant,
    problem_of,
    settings_in,
    show_unit,
)
from agentctx.errors import DeadlineExceeded
from tests.daemon.host.installed import FAILED, STOPPED, install

STATES = {
    ("failed", "failed", "exit-code", "78", "x.db is missing."): "failed, exit 78: x.db is missing",
    ("failed", "failed", "exit-code", "1", ""): "failed, exit 1",
    ("failed", "failed", "watchdog", "6", ""): "failed, watchdog",
    ("failed", "failed", "start-limit-hit", "1", ""): "failed, start-limit-hit",
    ("activating", "auto-restart", "exit-code", "1", "No space"): "starts again after exit 1: No space",
    ("activating", "start", "success", "0", ""): "starting",
    ("deactivating", "stop-sigterm", "success", "0", "Finishing."): "stopping",
    ("inactive", "dead", "success", "0", "Finishing work in progress."): "stopped",
    ("active", "running", "success", "0", "Serving on /s."): "does not answer",
    ("", "", "", "", ""): "does not answer",
}


def test_each_state_is_named_with_its_reason() -> None:
    names = ("ActiveState", "SubState", "Result", "ExecMainStatus", "StatusText")
    said = {state: problem_of(dict(zip(names, state, strict=True))) for state in STATES}
    assert said == {state: f"agentctx.service: {words}" for state, words in STATES.items()}


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ("ORT_DISABLE_TELEMETRY=1", {}),
        ("A=1 AGENTCTX_DATA_DIR=/srv/x B=", {"AGENTCTX_DATA_DIR": "/srv/x"}),
        ('"AGENTCTX_DATA_DIR=/srv/my data"', {"AGENTCTX_DATA_DIR": "/srv/my data"}),
        ("AGENTCTX_STORAGE__URL=postgresql://a@h/d?x=1", {"AGENTCTX_STORAGE__URL": "postgresql://a@h/d?x=1"}),
        ("AGENTCTX_SOCKET=/s", {}),
        ("", {}),
    ],
)
def test_settings_of_a_drop_in_are_read(environment: str, settings: dict[str, str]) -> None:
    assert settings_in(environment) == settings


def test_a_systemctl_that_is_missing_fails_or_hangs_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_service, "ANSWER_S", 0.2)
    program = tmp_path / "systemctl"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for script in (None, "echo 'Failed to connect to bus' >&2; exit 1", "exec sleep 100", "echo nonsense"):
        if script is None:
            monkeypatch.setenv("PATH", str(tmp_path / "empty"))
        else:
            monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        assert show_unit("agentctx.service", ["ActiveState", "Result"]) == {"ActiveState": "", "Result": ""}


def test_root_means_the_service_unless_a_daemon_of_root_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, says=STOPPED)
    own = tmp_path / "home/.local"
    (own / "share/agentctx").mkdir(parents=True)  # an earlier `sudo agentctx serve` left it
    assert is_meant()
    assert not is_meant(tmp_path / "named.sock")
    assert not is_meant(env={**os.environ, "AGENTCTX_SOCKET": "/s"})
    (own / "state/agentctx").mkdir(parents=True)
    (own / "state/agentctx/agentctx.sock").touch()
    assert not is_meant()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/agentctx.sock").touch()  # comes before it in the order
    assert is_meant()


def test_a_user_means_the_service_unless_there_is_data_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, says=STOPPED, uid=1000)
    assert is_meant()
    gone = NotListening("the socket does not exist")
    unreachable = explained(gone)
    assert unreachable.message == "agentctx.service: stopped"
    assert unreachable.hint.startswith("Its operator can help: Start it with `sudo systemctl start agentctx`")
    (tmp_path / "home/.local/share/agentctx").mkdir(parents=True)
    assert explained(gone) is gone


def test_what_else_went_wrong_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, says=FAILED)
    for error in (ConnectionDropped("it closed the connection"), DeadlineExceeded("no answer within 30 s")):
        said = explained(error).message
        assert said.startswith("agentctx.service: failed, exit 78: ")
        assert said.endswith(error.message)
    closed = ClosedToUser("you may not enter /run/agentctx")
    assert explained(closed) is closed


def test_a_busy_daemon_is_not_said_to_be_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, says="ActiveState=active\nSubState=running\nResult=success\n")
    for error in (ConnectionDropped("closed"), DeadlineExceeded("late")):
        assert explained(error) is error
    assert "restart agentctx.socket agentctx.service" in explained(NotListening("no socket")).hint


def test_a_start_that_refused_its_clients_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, says="")
    program, asked = tmp_path / "bin" / "systemctl", tmp_path / "asked"
    later = f"if mkdir {asked} 2>/dev/null; then echo ActiveState=activating; echo SubState=start"
    program.write_text(f"#!/bin/sh\n{later}; else echo ActiveState=failed; echo SubState=failed; fi\n")
    assert explained(ConnectionDropped("closed")).message.startswith("agentctx.service: failed")


def test_nobody_means_a_service_that_is_not_installed_or_where_systemd_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, says=STOPPED)
    monkeypatch.setattr(installed_service, "BOOTED", tmp_path / "none")
    assert not is_meant()
    monkeypatch.setattr(installed_service, "BOOTED", tmp_path)
    (tmp_path / "units/agentctx.service").unlink()
    assert not is_meant()


def test_only_roots_commands_look_where_the_service_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, says=FAILED)
    env = {"HOME": str(tmp_path / "home"), "AGENTCTX_LOG__LEVEL": "debug"}
    follow(env)
    assert env == {
        "HOME": str(tmp_path / "home"),
        "AGENTCTX_LOG__LEVEL": "debug",
        "AGENTCTX_DATA_DIR": f"{tmp_path}/data",
        "STATE_DIRECTORY": "/var/lib/agentctx:/var/lib/agentctx-served",
        "CACHE_DIRECTORY": "/var/cache/agentctx",
        "CONFIGURATION_DIRECTORY": "/etc/agentctx",
        "RUNTIME_DIRECTORY": "/run/agentctx",
    }
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    env = {"HOME": str(tmp_path / "home")}
    follow(env)
    assert list(env) == ["HOME"]
