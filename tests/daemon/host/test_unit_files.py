"""The units of systemd/ fit the program, are valid for systemd, and keep their exposure level."""

from __future__ import annotations

import configparser
import os
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentctx.config import paths
from agentctx.config.load import ENV_PREFIX
from agentctx.config.paths import SYSTEM_SOCKET
from agentctx.config.schema import ServerSettings
from agentctx.daemon.host import unit_files
from agentctx.daemon.host.unit_files import (
    NO_NETWORK,
    SERVICE,
    SOCKET,
    Program,
    UnitFile,
    check_visible,
    outermost,
    system_files,
    user_files,
)
from agentctx.daemon.run import EXIT_CONFIG
from agentctx.errors import ConfigInvalid

FOLDER = Path(__file__).parents[3] / "systemd"
ANALYZE = shutil.which("systemd-analyze")
needs_analyze = pytest.mark.skipif(
    ANALYZE is None, reason="NOT TESTED: units and their exposure, there is no systemd-analyze here"
)
PROGRAM = Program(Path(sys.executable).parent / "agentctx", (Path("/opt/agentctx"), Path("/opt/python")))
NETWORKED = 1.1
WITHOUT_NETWORK = 0.4


def installed(folder: Path, *, no_network: bool = False) -> Path:
    """Install a machine's units below the folder; return the folder of the units."""
    for file in system_files(PROGRAM, no_network=no_network, root=folder):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_text(file.text)
    return folder / "etc/systemd/system"


def analyze(*arguments: object, runtime: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`runtime` is the runtime folder that a user's units get."""
    command = [str(ANALYZE), *map(str, arguments)]
    environment = os.environ | ({"XDG_RUNTIME_DIR": str(runtime)} if runtime else {})
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def options(unit: Path) -> dict[str, list[str]]:
    """All values of each option."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


@needs_analyze
@pytest.mark.parametrize("no_network", [False, True])
def test_systemd_understands_every_line(tmp_path: Path, no_network: bool) -> None:
    units = installed(tmp_path, no_network=no_network)
    done = analyze("verify", "--man=no", units / SERVICE, units / SOCKET)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
def test_systemd_understands_every_line_of_a_users_units(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = user_files(PROGRAM, {"XDG_CONFIG_HOME": str(tmp_path)})
    for file in files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_text(file.text)
    done = analyze(
        "--user", "verify", "--man=no", *(file.path for file in files), runtime=tmp_path_factory.mktemp("run")
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
@pytest.mark.parametrize(("no_network", "most"), [(False, NETWORKED), (True, WITHOUT_NETWORK)])
def test_the_exposure_stays_low(tmp_path: Path, no_network: bool, most: float) -> None:
    units = installed(tmp_path, no_network=no_network)
    done = analyze("security", "--offline=yes", "--no-pager", units / SERVICE)
    found = re.search(r"Overall exposure level for \S+ ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= most, done.stdout


def test_the_units_name_existing_commands() -> None:
    service, socket = options(FOLDER / SERVICE), options(FOLDER / SOCKET)
    assert socket["ListenStream"] == [str(SYSTEM_SOCKET)]
    assert service["RestartPreventExitStatus"] == [str(EXIT_CONFIG)]
    (stop_s,) = service["TimeoutStopSec"]
    assert float(stop_s.removesuffix("s")) > 2 * ServerSettings().shutdown_timeout_s
    assert service["LoadCredential"] == [f"{ENV_PREFIX.lower().rstrip('_')}:/etc/agentctx/credentials"]
    assert "PrivateUsers" not in service, "every client would appear as nobody"
    assert "ORT_DISABLE_TELEMETRY=1" in service["Environment"], "nothing leaves the machine by itself"
    command = [sys.executable, "-m", "agentctx", *service["ExecStart"][0].split()[1:], "--help"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_user_and_the_folders_that_the_service_needs_are_made() -> None:
    service, socket = options(FOLDER / SERVICE), options(FOLDER / SOCKET)
    users = {line.split()[1] for line in lines_of("sysusers.d") if line.startswith("u ")}
    named = {*service["User"], *service["Group"], *socket["SocketUser"], *socket["SocketGroup"]}
    assert named == users
    folders = {line.split()[1]: line.split()[2] for line in lines_of("tmpfiles.d") if line.startswith("d ")}
    (root,), (keys,) = service["RootDirectory"], service["LoadCredential"]
    assert folders == {root: "0755", keys.partition(":")[2]: "0700"}


def lines_of(folder: str) -> list[str]:
    return (FOLDER / folder / "agentctx.conf").read_text().splitlines()


@pytest.mark.parametrize(
    "name", [path.name for path in FOLDER.glob("*.*") if path.is_file() and path.suffix != ".plist"]
)
def test_every_unit_is_in_sections(name: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=False)
    parser.read(FOLDER / name)
    assert parser.sections()


def test_the_service_runs_and_sees_this_program(tmp_path: Path) -> None:
    service = options(installed(tmp_path) / SERVICE)
    assert service["ExecStart"] == [f"{PROGRAM.command} serve"]
    assert "/opt/agentctx /opt/python" in service["BindReadOnlyPaths"]


LAUNCHD_KEYS = {
    "Label": str,
    "ProgramArguments": list,
    "EnvironmentVariables": dict,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "Umask": int,
    "StandardErrorPath": str,
}
"""The keys of launchd.plist(5) that we use, and their types."""


def test_launchd_reads_the_property_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "IS_MAC", True)
    program = Program(Path("/opt/a&b <c>/agentctx"), ())
    (file,) = user_files(program, {"HOME": str(tmp_path)})
    assert file.path == tmp_path / "Library/LaunchAgents/agentctx.plist"
    file.path.parent.mkdir(parents=True)
    file.path.write_text(file.text)
    assert file.state() == "current"
    (newer,) = user_files(Program(Path("/opt/b"), ()), {"HOME": str(tmp_path)})
    assert newer.state() == "outdated"
    file.path.write_text(file.text.replace("Umask", "Mask"))
    assert file.state() == "edited"
    job = plistlib.loads(file.text.encode())
    assert {key: type(value) for key, value in job.items()} == LAUNCHD_KEYS
    assert job["ProgramArguments"] == ["/opt/a&b <c>/agentctx", "serve"]
    assert (job["Umask"], job["KeepAlive"]) == (0o077, {"SuccessfulExit": False})
    assert job["StandardErrorPath"] == str(tmp_path / "Library/Logs/agentctx.log")


def test_odd_paths_are_quoted(tmp_path: Path) -> None:
    program = Program(Path("/opt/my 100%/bin/agentctx"), (Path("/opt/my 100%"),))
    files = system_files(program, root=tmp_path)
    (service,) = (file for file in files if file.path.name == SERVICE)
    assert 'ExecStart="/opt/my 100%%/bin/agentctx" serve' in service.text
    assert 'BindReadOnlyPaths="/opt/my 100%%"' in service.text


@pytest.mark.parametrize("folder", ["/home/ann/venv", "/root/.pyenv", "/run/user/1000/x"])
def test_a_program_that_the_service_could_not_see_is_refused(folder: str) -> None:
    with pytest.raises(ConfigInvalid, match="hides") as caught:
        check_visible(Program(Path("/opt/agentctx/bin/agentctx"), (Path(folder),)))
    assert "--user" in caught.value.hint


def test_only_the_outermost_folders_are_needed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = outermost([tmp_path / "a/b", tmp_path / "a", tmp_path / "link"])
    assert found == (tmp_path / "a", tmp_path / "link")


def test_the_drop_in_is_installed_when_wanted(tmp_path: Path) -> None:
    without = {file.path.name for file in system_files(PROGRAM, root=tmp_path)}
    closed = {file.path.name for file in system_files(PROGRAM, no_network=True, root=tmp_path)}
    assert closed - without == {NO_NETWORK}


def test_a_file_is_known_by_its_mark_until_it_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rendered() -> UnitFile:
        return next(file for file in system_files(PROGRAM, root=tmp_path) if file.path.name == SERVICE)

    before = rendered()
    assert before.state() == "missing"
    installed(tmp_path)
    assert before.state() == "current"
    monkeypatch.setattr(unit_files, "__version__", "99.0.0")
    assert rendered().state() == "outdated"
    for mine in (before.text + "# mine\n", before.text.partition("\n")[2], "\udcff", ""):
        before.path.write_text(mine, "utf-8", errors="surrogateescape")
        assert rendered().state() == "edited", "without our mark, or changed below it, it is somebody else's"
