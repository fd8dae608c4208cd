"""Generates the files for systemd and launchd, and detects whether installed ones are still as we wrote them.

The first line of an installed file holds the sha256 of the rest, which distinguishes an outdated file from an
edited one.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agentctx import __version__
from agentctx.commit import build_name, own_commit
from agentctx.config import paths
from agentctx.errors import ConfigInvalid

State: TypeAlias = Literal["missing", "current", "outdated", "edited"]

SYSTEM_UNITS: Final = Path("etc/systemd/system")
CREDENTIALS: Final = Path("etc/agentctx/credentials")
SERVICE: Final = "agentctx.service"
SOCKET: Final = "agentctx.socket"
NO_NETWORK: Final = "no-network.conf"
_MARK: Final = "# agentctx service install wrote this file, sha256 {}"
_XML_MARK: Final = f'<?xml version="1.0" encoding="UTF-8"?> <!-- {_MARK} -->'
_EXEC_START: Final = "ExecStart=/usr/bin/agentctx serve"
_PACKAGE: Final = Path(__file__).parents[1]
_FOLDERS: Final = (_PACKAGE / "systemd", _PACKAGE.parent / "systemd")
_HIDDEN: Final = (Path("/home"), Path("/root"), Path("/run/user"))
"""The folders that ProtectHome= hides from a service."""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A file to install. `text` excludes the mark."""

    path: Path
    text: str

    @property
    def marked(self) -> str:
        """The text as it is written, with the mark."""
        mark = _XML_MARK if self.path.suffix == ".plist" else _MARK
        return f"{mark.format(_digest(self.text))}\n{self.text}"


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
    """Return the files of the system-wide service, below `root`.

    Raises:
        ConfigInvalid: a template of ours is missing.
    """
    units = root / SYSTEM_UNITS
    files = [
        UnitFile(root / "etc/sysusers.d/agentctx.conf", _template("sysusers.d/agentctx.conf")),
        UnitFile(root / "etc/tmpfiles.d/agentctx.conf", _template("tmpfiles.d/agentctx.conf")),
        UnitFile(units / SOCKET, _template(SOCKET)),
        UnitFile(units / SERVICE, _with_visible_folders(_running(_template(SERVICE), program), program)),
    ]
    if no_network:
        files.append(UnitFile(no_network_path(root), _template(NO_NETWORK)))
    return files


def user_files(program: Program, env: Mapping[str, str] = os.environ) -> list[UnitFile]:
    """Return the files of the service for one user: systemd's units, or launchd's property list.

    Raises:
        ConfigInvalid: a template of ours is missing.
    """
    service = paths.user_unit(env)
    if paths.IS_MAC:
        program_path, log_path = str(program.command), str(service.parents[1] / "Logs/agentctx.log")
        text = _template("agentctx.plist").replace("/usr/bin/agentctx", escape(program_path, quote=False))
        text = text.replace("/var/log/agentctx.log", escape(log_path, quote=False))
        return [UnitFile(service, f"<!-- agentctx {__version__} -->\n{text}")]
    return [
        UnitFile(service.with_name(SOCKET), _template("agentctx.user.socket")),
        UnitFile(service, _running(_template("agentctx.user.service"), program)),
    ]


def no_network_path(root: Path = Path("/")) -> Path:
    """Return the path of the drop-in that removes network access."""
    return root / SYSTEM_UNITS / f"{SERVICE}.d" / NO_NETWORK


def state_of(file: UnitFile, found: str | None) -> State:
    """Compare a file on disk with the one we would write. `found` is its text, or None if it is missing.

    A file without our mark, or changed below it, counts as edited.
    """
    if found is None:
        return "missing"
    if found == file.marked:
        return "current"
    return "outdated" if is_ours(found) else "edited"


def is_ours(found: str) -> bool:
    """Whether a file is unchanged since some version of agentctx wrote it."""
    first, _, rest = found.partition("\n")
    return first in {mark.format(_digest(rest)) for mark in (_MARK, _XML_MARK)}


def read_unit(path: Path) -> str | None:
    """Return the text of an installed file, or None if it does not exist."""
    try:
        return path.read_text("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


def check_visible(program: Program) -> None:
    """Raise `ConfigInvalid` if the system-wide service could not read the program."""
    for folder in (program.command.parent, *program.needs):
        if hidden := next((each for each in _HIDDEN if folder.is_relative_to(each)), None):
            raise ConfigInvalid(
                f"The system-wide service cannot use {folder}: its unit hides {hidden} from it.",
                hint="Install agentctx and its Python elsewhere, such as /opt/agentctx, or use --user.",
            )


def _running(template: str, program: Program) -> str:
    if template.count(_EXEC_START) != 1:
        raise ConfigInvalid(f"The unit has no line {_EXEC_START}.", hint="Install agentctx again.")
    unit = template.replace(_EXEC_START, f"ExecStart={_quoted(str(program.command))} serve")
    # The build makes the file differ, so `status` shows an update, and `install` starts the new one.
    return f"# agentctx {build_name(__version__, own_commit())}\n{unit}"


def _with_visible_folders(unit: str, program: Program) -> str:
    """Return the unit with the program's folders made visible, except those below /usr."""
    folders = [folder for folder in program.needs if not folder.is_relative_to("/usr")]
    if not folders:
        return unit
    line = f"BindReadOnlyPaths={' '.join(_quoted(str(folder)) for folder in folders)}"
    return unit.replace("ProtectSystem=", f"{line}\nProtectSystem=", 1)


def outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the given and resolved paths of the folders, without those inside another folder."""
    names = {name for folder in folders for name in (folder, folder.resolve())}
    return tuple(
        sorted(
            each for each in names if not any(each != other and each.is_relative_to(other) for other in names)
        )
    )


def _quoted(path: str) -> str:
    """Quote a path as a word of a unit file, in which `%` starts a specifier."""
    escaped = path.replace("%", "%%")
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"' if _is_odd(escaped) else escaped


def _is_odd(path: str) -> bool:
    return any(character.isspace() or character in "\"'\\" for character in path)


def _template(name: str) -> str:
    for folder in _FOLDERS:
        if (folder / name).is_file():
            return (folder / name).read_text("utf-8")
    raise ConfigInvalid(f"The file systemd/{name} is missing.", hint="Install agentctx again.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
