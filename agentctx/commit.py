"""The commit that this program was built from: the second field of its version.

A build writes it into the package. A clone that is used in place, by an editable install, has no such file:
its `.git` names the commit that is checked out, but not whether files were changed since, so it is marked.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
FILE_NAME: Final = "commit.txt"
_LENGTH: Final = 12
_HASH: Final = frozenset("0123456789abcdef")


@cache
def own_commit() -> str:
    """Return the commit of this process: the first call decides, so that a daemon names the one it runs."""
    return commit_of(Path(__file__).parent)


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
    return f"{head[:_LENGTH]}-editable" if len(head) >= _LENGTH and _HASH.issuperset(head) else UNKNOWN


def _checked_out(git: Path) -> str:
    """Return what HEAD names: a hash, unless git stores it in another way than is known here."""
    if git.is_file():  # of a worktree
        git = git.parent / _line(git).removeprefix("gitdir: ")
    head = _line(git / "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = git / _line(git / "commondir") if (git / "commondir").is_file() else git
    if (common / name).is_file():
        return _line(common / name)
    packed = (common / "packed-refs").read_text("utf-8").splitlines()
    return next((line.partition(" ")[0] for line in packed if line.endswith(f" {name}")), "")


def _line(file: Path) -> str:
    return file.read_text("utf-8").strip()
