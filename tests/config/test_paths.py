"""Where files and sockets are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.paths import (
    NO_HOME,
    SYSTEM_CONFIG,
    SYSTEM_SOCKET,
    config_candidates,
    default_data_dir,
    socket_candidates,
)


def test_a_user_without_home_and_account_can_use_the_system_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_account() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_account)
    assert SYSTEM_SOCKET in socket_candidates({})
    assert default_data_dir({}).is_relative_to(NO_HOME)
    assert default_data_dir({"HOME": "/srv/agent"}).is_relative_to("/srv/agent")


def test_only_the_service_reads_the_file_in_etc() -> None:
    own = {"HOME": "/home/alice", "XDG_RUNTIME_DIR": "/run/user/1000"}
    assert config_candidates(own) == [Path("/home/alice/.config/agentctx/config.toml")]
    service = {"HOME": "/var/lib/agentctx", "CONFIGURATION_DIRECTORY": "/etc/agentctx:/etc/other"}
    assert config_candidates(service) == [SYSTEM_CONFIG]
    assert config_candidates({**service, "AGENTCTX_CONFIG": "/srv/a.toml"}) == [Path("/srv/a.toml")]
