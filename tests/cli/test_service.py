"""`agentctx service` with a root folder, as for an image: the same files, and nothing is run."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctx.cli import service
from agentctx.cli.app import run
from agentctx.config import paths
from agentctx.daemon.host import unit_files
from agentctx.daemon.host.unit_files import Program

UNITS = Path("etc/systemd/system")


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that is visible to the service, wherever the tests run."""
    folder = Path("/opt/agentctx")
    monkeypatch.setattr(Program, "current", lambda: Program(folder / "bin/agentctx", (folder,)))


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run(["service", *arguments, "--json"])
    return dict(json.loads(capsys.readouterr().out))


def states(found: dict[str, Any]) -> dict[str, str]:
    return {Path(file["path"]).name: file["state"] for file in found["files"]}


def test_install_again_and_uninstall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = f"--root={tmp_path}"
    assert not report(capsys, "status", root)["installed"]
    first = report(capsys, "install", root)
    assert set(states(first).values()) == {"written"}
    assert first["commands"][-1] == "systemctl enable --now agentctx.socket agentctx.service"
    assert not first["ran"]
    assert "ExecStart=/opt/agentctx/bin/agentctx serve" in (tmp_path / UNITS / "agentctx.service").read_text()
    assert set(states(report(capsys, "install", root)).values()) == {"unchanged"}
    assert report(capsys, "status", root)["installed"]
    assert set(states(report(capsys, "uninstall", root)).values()) == {"removed"}
    assert not list((tmp_path / UNITS).glob("agentctx.s*"))
    assert report(capsys, "uninstall", root) == {"files": [], "commands": [], "ran": False}


def test_an_older_version_of_a_file_is_updated_and_the_service_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report(capsys, "install", f"--root={tmp_path}")
    monkeypatch.setattr(Program, "current", lambda: Program(Path("/srv/bin/agentctx"), ()))
    found = report(capsys, "install", f"--root={tmp_path}")
    assert states(found)["agentctx.service"] == "updated"
    assert "systemctl stop agentctx.socket agentctx.service" in found["commands"]


def test_after_an_update_of_the_program_the_service_is_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"--root={tmp_path}"
    report(capsys, "install", root)
    assert not any("stop" in command for command in report(capsys, "install", root)["commands"])
    monkeypatch.setattr(unit_files, "__version__", "99.0.0")
    assert states(report(capsys, "status", root))["agentctx.service"] == "outdated"
    assert "systemctl stop agentctx.socket agentctx.service" in report(capsys, "install", root)["commands"]
    assert states(report(capsys, "status", root))["agentctx.service"] == "current"


def test_an_edited_file_is_kept_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = f"--root={tmp_path}"
    report(capsys, "install", root)
    unit = tmp_path / UNITS / "agentctx.service"
    mine = unit.read_text() + "# mine\n"
    unit.write_text(mine)
    assert run(["service", "install", root]) == 1
    printed = capsys.readouterr().err
    assert f"{unit} was edited by hand; nothing was changed." in printed
    assert "--force" in printed
    assert unit.read_text() == mine
    assert states(report(capsys, "uninstall", root))["agentctx.service"] == "left, edited"
    assert unit.read_text() == mine
    assert states(report(capsys, "install", root, "--force"))["agentctx.service"] == "replaced"
    assert unit.with_name("agentctx.service.edited").read_text() == mine


def test_dry_run_shows_everything_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["service", "install", f"--root={tmp_path}", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert f"--- {tmp_path}/etc/systemd/system/agentctx.service: would be written" in printed
    assert "WatchdogSec=30s" in printed
    assert "would run:\n  systemd-sysusers agentctx.conf" in printed
    assert not list(tmp_path.iterdir())


def test_the_network_is_unchanged_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, drop_in = f"--root={tmp_path}", tmp_path / UNITS / "agentctx.service.d/no-network.conf"
    report(capsys, "install", root)
    closed = report(capsys, "install", root, "--no-network")
    assert "systemctl stop agentctx.socket agentctx.service" in closed["commands"], "it holds at once"
    assert drop_in.exists()
    report(capsys, "install", root)
    assert drop_in.exists()
    assert states(report(capsys, "install", root, "--network"))["no-network.conf"] == "removed"
    assert not drop_in.exists()
    report(capsys, "install", root, "--no-network")
    drop_in.write_text("# mine\n")
    assert run(["service", "install", root, "--network"]) == 1
    report(capsys, "install", root, "--network", "--force")
    assert not drop_in.exists()
    assert drop_in.with_name("no-network.conf.edited").read_text() == "# mine\n"


def test_a_users_units_are_in_the_users_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(service, "BOOTED", tmp_path / "systemd is not PID 1")
    found = report(capsys, "install", "--user")
    assert states(found) == {"agentctx.socket": "written", "agentctx.service": "written"}
    assert found["commands"] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now agentctx.socket agentctx.service",
    ]
    assert run(["service", "status", "--user"]) == 0
    printed = capsys.readouterr()
    assert "current  " in printed.out
    assert "systemd does not run here" in printed.err


def test_systemctl_commands_run_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use a systemctl that records its arguments, and whether the unit existed."""
    programs, calls = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    unit = tmp_path / "config/systemd/user/agentctx.service"
    systemctl = programs / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" $(test -e {unit} && echo there) >> {calls}\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    assert report(capsys, "install", "--user")["ran"]
    assert report(capsys, "uninstall", "--user")["ran"]
    assert calls.read_text().splitlines() == [
        "--user daemon-reload there",
        "--user enable --now agentctx.socket agentctx.service there",
        "--user disable --now agentctx.socket agentctx.service there",
        "--user daemon-reload",
    ]


def test_a_running_daemon_is_left_to_its_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second daemon would be refused the data, again and again."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(service, "BOOTED", tmp_path / "none")
    (tmp_path / "agentctx").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "agentctx/agentctx.sock"))
        listening.listen()
        assert run(["service", "install", "--user"]) == 0
        printed = capsys.readouterr()
        assert "systemctl --user enable agentctx.socket agentctx.service" in printed.out
        assert "starts at your next login" in printed.err
        again = report(capsys, "install", "--user")["commands"]
        assert again[-1].endswith("enable --now agentctx.socket agentctx.service"), "it may be its own"


def test_on_macos_the_user_gets_a_property_list_and_the_command_that_loads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "IS_MAC", True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(service, "BOOTED", tmp_path / "none")
    file = tmp_path / "Library/LaunchAgents/agentctx.plist"
    assert run(["service", "install", "--user"]) == 0
    printed = capsys.readouterr()
    assert f"launchctl bootstrap gui/{os.getuid()} {file}" in printed.out
    assert "never tried on a Mac" in printed.err
    assert "systemd" not in printed.out + printed.err
    assert states(report(capsys, "status", "--user")) == {"agentctx.plist": "current"}
    removed = report(capsys, "uninstall", "--user")
    assert removed["commands"] == [f"launchctl bootout gui/{os.getuid()}/agentctx"]
    assert not file.exists()


def test_a_command_that_fails_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 5\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    assert run(["service", "install", "--user"]) == 1
    assert "`systemctl --user daemon-reload` failed with exit code 5." in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED: missing rights, the tests run as root")
def test_missing_privileges_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    assert run(["service", "install", f"--root={tmp_path}"]) == 1
    assert "--user" in capsys.readouterr().err


def test_conflicting_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["service", "install", "--user", f"--root={tmp_path}"]) == 2
    assert "drop --user" in capsys.readouterr().err


def test_the_unit_runs_this_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert Program.current().command == Path(sys.executable).parent / "agentctx"
