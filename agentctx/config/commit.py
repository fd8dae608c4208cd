"""The commit that this program was built from: the second field of its version.

A build writes it into the package. A clone that is used in place, by an editable install, has no such file:
its `.git` names the commit that is checked out, but not whether files were changed since, so it is marked.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
FILE_NAME: Final = "commit.txt"
_HASH: Final = re.compile("[0-9a-f]{40,64}")


@cache
def own_commit() -> str:
    """Return the commit of this process: the first call decides, so that a daemon names the one it runs."""
    return commit_of(Path(__file__).parents[1])


def build_name(version: str, commit: str) -> str:
    """Return both fields of a version for people; the commit is empty where a daemon does not say it."""
    shown = {UNKNOWN: f"commit {UNKNOWN}", "": "commit not said"}
    return f"{version} ({shown.get(commit, commit)})"


def commit_of(package: Path) -> str:
    """Return the commit of the package in this folder; `unknown` if nothing says it."""
    if (package / FILE_NAME).is_file():
        return (package / FILE_NAME).read_text("utf-8").strip() or UNKNOWN
    try:
        head = _checked_out(package.parent / ".git")
    except (OSError, UnicodeDecodeError):
        head = ""
    return f"{head[:12]}-editable" if _HASH.fullmatch(head) else UNKNOWN


def _checked_out(git: Path) -> str:
    """Return the hash that HEAD names, which git keeps in a file of its own or among the packed ones."""
    head = _line(git / "HEAD").removeprefix("ref: ")
    if (git / head).is_file():
        return _line(git / head)
    packed = git / "packed-refs"
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {head}")), head)


def _line(file: Path) -> str:
    return file.read_text("utf-8").strip()
