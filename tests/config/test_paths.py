"""Where files and sockets are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config import paths
from agentctx.config.paths import (
    NO_HOME,
    SYSTEM_CONFIG,
    SYSTEM_SOCKET,
    config_candidates,
    default_data_dir,
    served_dir,
    socket_candidates,
    start_command,
    user_unit,
)


def test_a_user_without_home_and_account_can_use_the_system_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_account() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_account)
    assert SYSTEM_SOCKET in socket_candidates({})
    assert default_data_dir({}).is_relative_to(NO_HOME)
    assert default_data_dir({"HOME": "/srv/agent"}).is_relative_to("/srv/agent")


def test_what_was_served_is_noted_outside_of_the_data_folder() -> None:
    assert served_dir({"HOME": "/home/alice"}) == Path("/home/alice/.local/state/agentctx/served")
    service = {"STATE_DIRECTORY": "/var/lib/agentctx:/var/lib/agentctx-served"}
    assert served_dir(service) == Path("/var/lib/agentctx-served")
    assert default_data_dir(service) == Path("/var/lib/agentctx")
    one = {"STATE_DIRECTORY": "/srv/a", "XDG_STATE_HOME": "/state"}
    assert served_dir(one) == Path("/state/agentctx/served")


def test_only_the_service_reads_the_file_in_etc() -> None:
    own = {"HOME": "/home/alice", "XDG_RUNTIME_DIR": "/run/user/1000"}
    assert config_candidates(own) == [Path("/home/alice/.config/agentctx/config.toml")]
    service = {"HOME": "/var/lib/agentctx", "CONFIGURATION_DIRECTORY": "/etc/agentctx:/etc/other"}
    assert config_candidates(service) == [SYSTEM_CONFIG]
    assert config_candidates({**service, "AGENTCTX_CONFIG": "/srv/a.toml"}) == [Path("/srv/a.toml")]


@pytest.mark.parametrize(
    ("installed", "uid", "socket", "command"),
    [
        ("", 1000, "own", "agentctx serve"),
        ("", 1000, "/srv/my a.sock", "agentctx serve --socket '/srv/my a.sock'"),
        ("user", 1000, "own", "systemctl --user start agentctx"),
        ("user", 1000, "/srv/a.sock", "agentctx serve --socket /srv/a.sock"),
        ("system", 1000, "own", "sudo systemctl start agentctx"),
        ("system", 1000, str(SYSTEM_SOCKET), "sudo systemctl start agentctx"),
        ("system", 0, "own", "systemctl start agentctx"),
        ("user system", 1000, "own", "systemctl --user start agentctx"),
        ("user system", 0, "own", "systemctl start agentctx"),
        ("user", 0, "own", "systemctl --user start agentctx"),
    ],
)
def test_the_daemon_is_started_by_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str, uid: int, socket: str, command: str
) -> None:
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    monkeypatch.setattr(paths, "IS_MAC", False)
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr(paths, "SYSTEM_UNIT", tmp_path / "system.service")
    files = {"user": user_unit(env), "system": paths.SYSTEM_UNIT}
    for name in installed.split():
        files[name].parent.mkdir(parents=True, exist_ok=True)
        files[name].touch()
    asked = tmp_path / "run/agentctx/agentctx.sock" if socket == "own" else Path(socket)
    assert start_command(asked, env) == command


def test_a_named_socket_is_the_one_to_start_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEM_UNIT", tmp_path)
    env = {"HOME": str(tmp_path), "AGENTCTX_SOCKET": str(tmp_path / "mine.sock")}
    assert start_command(tmp_path / "mine.sock", env) == "agentctx serve"


def test_on_macos_launchd_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "IS_MAC", True)
    env = {"HOME": str(tmp_path)}
    user_unit(env).parent.mkdir(parents=True)
    user_unit(env).touch()
    asked = tmp_path / ".local/state/agentctx/agentctx.sock"
    assert start_command(asked, env) == "launchctl kickstart gui/$UID/agentctx"
