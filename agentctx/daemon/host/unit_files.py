"""Renders the shipped files for systemd and launchd, and tells whether installed ones are as we wrote them.

The first line of an installed file holds the sha256 of the rest, which distinguishes an outdated file from an
edited one.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agentctx import __version__
from agentctx.config import paths
from agentctx.config.commit import build_name, own_commit
from agentctx.errors import ConfigInvalid

State: TypeAlias = Literal["missing", "current", "outdated", "edited"]

SYSTEM_UNITS: Final = Path("etc/systemd/system")
SERVICE: Final = "agentctx.service"
SOCKET: Final = "agentctx.socket"
NO_NETWORK: Final = "no-network.conf"
_STAMP: Final = "# agentctx service install wrote this file, sha256 {}"
_XML_STAMP: Final = f'<?xml version="1.0" encoding="UTF-8"?> <!-- {_STAMP} -->'
_PROGRAM: Final = "/usr/bin/agentctx"
"""What the shipped files run."""
_PACKAGE: Final = Path(__file__).parents[2]
_HIDDEN: Final = (Path("/home"), Path("/root"), Path("/run/user"))
"""The folders that ProtectHome= hides from a service."""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A file to install, with a stamp, the hash of its text, in the first line."""

    path: Path
    text: str

    def state(self) -> State:
        """Compare the installed file with this one. Without our stamp, or changed below it, it was edited."""
        try:
            installed = self.path.read_text("utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return "missing"
        if installed == self.text:
            return "current"
        first, _, rest = installed.partition("\n")
        return "outdated" if first in {_stamp(rest), _stamp(rest, _XML_STAMP)} else "edited"


@dataclass(frozen=True, slots=True)
class Program:
    """The installation that a unit runs. `needs` lists all folders from which it is read."""

    command: Path
    needs: tuple[Path, ...]

    @classmethod
    def current(cls) -> Program:
        """Return the running installation."""
        # In an editable install, migrations and units are beside the package.
        folders = [Path(sys.prefix), Path(sys.base_prefix), _PACKAGE.parent]
        return cls(Path(sys.executable).parent / "agentctx", outermost(folders))


def system_files(program: Program, *, no_network: bool = False, root: Path = Path("/")) -> list[UnitFile]:
    """Return the files of the system-wide service, below `root`."""
    units, service = root / SYSTEM_UNITS, _running(_shipped(SERVICE), program)
    # All of /usr is visible to the service.
    if folders := [_quoted(folder) for folder in program.needs if not folder.is_relative_to("/usr")]:
        line = f"BindReadOnlyPaths={' '.join(folders)}"
        service = service.replace("ProtectSystem=", f"{line}\nProtectSystem=", 1)
    texts = {
        root / "etc/sysusers.d/agentctx.conf": _shipped("sysusers.d/agentctx.conf"),
        root / "etc/tmpfiles.d/agentctx.conf": _shipped("tmpfiles.d/agentctx.conf"),
        units / SOCKET: _shipped(SOCKET),
        units / SERVICE: service,
        **({no_network_path(root): _shipped(NO_NETWORK)} if no_network else {}),
    }
    return [_stamped(path, text) for path, text in texts.items()]


def user_files(program: Program, env: Mapping[str, str] = os.environ) -> list[UnitFile]:
    """Return the files of the service for one user: systemd's units, or launchd's property list."""
    service = paths.user_unit(env)
    if paths.IS_MAC:
        log = service.parents[1] / "Logs/agentctx.log"
        text = f"<!-- agentctx {__version__} -->\n{_shipped('agentctx.plist')}"
        text = text.replace(_PROGRAM, escape(str(program.command), quote=False))
        text = text.replace("/var/log/agentctx.log", escape(str(log), quote=False))
        return [_stamped(service, text, _XML_STAMP)]
    return [
        _stamped(service.with_name(SOCKET), _shipped("agentctx.user.socket")),
        _stamped(service, _running(_shipped("agentctx.user.service"), program)),
    ]


def no_network_path(root: Path = Path("/")) -> Path:
    """Return the path of the drop-in that removes network access."""
    return root / SYSTEM_UNITS / f"{SERVICE}.d" / NO_NETWORK


def check_visible(program: Program) -> None:
    """Raise `ConfigInvalid` if the system-wide service could not read the program."""
    for folder in (program.command.parent, *program.needs):
        if hidden := next((each for each in _HIDDEN if folder.is_relative_to(each)), None):
            raise ConfigInvalid(
                f"The system-wide service cannot use {folder}: its unit hides {hidden} from it.",
                hint="Install agentctx and its Python elsewhere, such as /opt/agentctx, or use --user.",
            )


def outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the given and resolved paths of the folders, without those inside another folder."""
    names = {name for folder in folders for name in (folder, folder.resolve())}
    return tuple(sorted(each for each in names if names.isdisjoint(each.parents)))


def _running(unit: str, program: Program) -> str:
    """Return the unit with the path of the program."""
    unit = unit.replace(f"ExecStart={_PROGRAM}", f"ExecStart={_quoted(program.command)}")
    # The build makes the file differ, so `status` shows an update, and `install` starts the new one.
    return f"# agentctx {build_name(__version__, own_commit())}\n{unit}"


def _quoted(path: Path) -> str:
    """Quote a path as a word of a unit file, in which `%` starts a specifier."""
    word = str(path).replace("%", "%%")
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"' if re.search(r"[\s\"'\\]", word) else word


def _shipped(name: str) -> str:
    folders = (_PACKAGE / "systemd", _PACKAGE.parent / "systemd")
    return next(folder / name for folder in folders if folder.is_dir()).read_text("utf-8")


def _stamped(path: Path, text: str, stamp: str = _STAMP) -> UnitFile:
    return UnitFile(path, f"{_stamp(text, stamp)}\n{text}")


def _stamp(text: str, stamp: str = _STAMP) -> str:
    return stamp.format(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest())
