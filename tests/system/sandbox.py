"""Run a command with the same files and system calls as the unit of the system service.

    python -m tests.system.sandbox [--no-network] [--writable FOLDER]... [--readable PATH]... -- COMMAND...

bwrap makes the mounts and loads the filters. The effects of the unit's own mounts, like ProtectHome=, come
from a root that contains only the named paths. If root starts it, it has no user namespace, like the unit:
peers keep their uids. Exits with the command's exit code.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentctx.daemon.host.unit_files import Program, no_network_path, system_files
from tests.system.unit_filter import Options, filters, options

_LIMITS: Final = {"LimitNOFILE": resource.RLIMIT_NOFILE, "LimitCORE": resource.RLIMIT_CORE}
_PROJECT: Final = Path(__file__).parents[2]
"""Paths where `python -m tests…` finds what it runs."""
_APIS: Final = ("--ro-bind", "/sys", "/sys", "--dev", "/dev", "--proc", "/proc")
"""The kernel's file systems, as MountAPIVFS= and PrivateDevices= mount them."""


def unit_options(*, no_network: bool = False) -> dict[str, list[str]]:
    """Return the options of the service as it would be installed for this program."""
    files = system_files(Program.current(), no_network=no_network)
    units = [
        file.text for file in files if file.path.name == "agentctx.service" or file.path == no_network_path()
    ]
    return options("\n".join(units))


def mounts(unit: Options, *, readable: Sequence[Path], writable: Sequence[Path]) -> list[str]:
    """Return the bwrap arguments for the root: read-only except for the named paths and a private /tmp."""
    # First: the program or a folder may be below /tmp.
    arguments = ["--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
    for named in [word for value in unit["BindReadOnlyPaths"] for word in value.split()]:
        arguments += _bound("--ro-bind-try" if named.startswith("-") else "--ro-bind", named.lstrip("-"))
    arguments += _APIS
    for path in writable:
        arguments += ("--bind", str(path), str(path))
    for path in readable:
        arguments += ("--ro-bind", str(path), str(path))
    return [*arguments, "--remount-ro", "/"]


def command_line(
    unit: Options, command: Sequence[str], *, readable: Sequence[Path], writable: Sequence[Path]
) -> list[str]:
    """Return all arguments of bwrap. The filters' files stay open for it."""
    as_root = ["--cap-drop", "ALL"] if os.geteuid() == 0 else ["--unshare-user"]
    network = ["--unshare-net"] if unit.get("PrivateNetwork") == ["yes"] else []
    environment = [word for each in unit.get("Environment", ()) for word in ("--setenv", *each.split("=", 1))]
    seccomp = [word for program in filters(unit) for word in ("--add-seccomp-fd", str(_inherited(program)))]
    return [
        *("bwrap", "--die-with-parent", "--unshare-ipc", "--unshare-uts", *as_root, *network, *environment),
        *mounts(unit, readable=readable, writable=writable),
        *(*seccomp, "--chdir", str(_PROJECT), "--", *command),
    ]


def _bound(option: str, path: str) -> list[str]:
    # /bin and similar are links on a merged system: the same path must lead to the same files.
    if Path(path).is_symlink() and not path.startswith("/usr"):
        return ["--symlink", str(Path(path).readlink()), path]
    return [option, path, path]


def _inherited(content: bytes) -> int:
    file = os.memfd_create("filter", 0)
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _limit(unit: Options) -> None:
    for name, limit in _LIMITS.items():
        number = int(unit[name][-1])
        resource.setrlimit(limit, (number, number))


def main() -> None:
    """Replace this process by bwrap."""
    parser = argparse.ArgumentParser(description="Run a command as the unit would.")
    parser.add_argument("--no-network", action="store_true", help="as with the drop-in no-network.conf")
    parser.add_argument("--writable", type=Path, action="append", default=[])
    parser.add_argument("--readable", type=Path, action="append", default=[])
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    unit = unit_options(no_network=given.no_network)
    words = command_line(unit, given.command, readable=given.readable, writable=given.writable)
    _limit(unit)
    os.execvp(words[0], words)  # noqa: S606 - no shell; bwrap is where the system has it


if __name__ == "__main__":
    main()
