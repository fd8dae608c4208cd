"""The command that installs an extra's packages into this program's environment."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "agentctx-daemon"
_VERSION: Final = re.compile(r"(?!==)(?<!=)[<>=!~ ].*")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["'](?P<name>[^"']+)["']""")


def install_hint(extra: str) -> str:
    """Return the hint with the command that installs an extra's packages into this environment.

    It names the packages instead of agentctx with its extra, which is not on the package index.
    """
    return f"Install it with: {install_command(packages_of(extra), Path(sys.prefix), sys.executable)}"


def install_hint_of_package(package: str) -> str:
    """Return the hint with the command that installs one of the packages of agentctx's source folder.

    No package index has them.
    """
    environment, source = Path(sys.prefix), f"./packages/{package}"
    if (environment / "uv-receipt.toml").is_file():
        command = f"uv tool install . --with {source}"
    else:
        command = install_command([source], environment, sys.executable)
    return f"In the folder of agentctx's source, run: {command}; or install the wheel of the same release."


def packages_of(extra: str) -> list[str]:
    """Return the packages of an extra from this distribution's metadata, without versions unless pinned."""
    from importlib import metadata  # takes as long as the rest of a command's start

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    return [
        _VERSION.sub("", requirement).strip()
        for line in lines
        for requirement, _, marker in [line.partition(";")]
        if (found := _EXTRA.search(marker)) and found["name"] == extra
    ]


def install_command(packages: list[str], environment: Path, python: str) -> str:
    """Return the command that installs packages with the tool that made the environment: pipx, uv or pip."""
    names = " ".join(map(_written, packages))
    if (environment / "pipx_metadata.json").is_file():
        return f"pipx inject {environment.name} {names}"
    if (environment / "uv-receipt.toml").is_file() or find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(python)} {names}"
    return f"{shlex.quote(python)} -m pip install {names}"


def _written(package: str) -> str:
    """Escape without quotes, for any shell: errors hide quoted values, which could be secrets."""
    return package.replace("[", "\\[").replace("]", "\\]")
