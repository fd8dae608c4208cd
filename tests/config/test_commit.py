"""Which commit a package is from, where no build wrote it: as git itself says it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentctx.config.commit import build_name, commit_of


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    clone = tmp_path / "clone"
    clone.mkdir()
    git(clone, "init")
    git(clone, "commit", "--allow-empty", "--message", "one")
    return clone


def test_what_a_build_wrote_comes_first(clone: Path) -> None:
    (clone / "agentctx").mkdir()
    (clone / "agentctx" / "commit.txt").write_text("0123456789ab\n")
    assert commit_of(clone / "agentctx") == "0123456789ab"
    (clone / "agentctx" / "commit.txt").write_text("")
    assert commit_of(clone / "agentctx") == "unknown"


def test_an_editable_install_names_what_is_checked_out_however_git_stores_it(clone: Path) -> None:
    def named() -> bool:
        return commit_of(clone / "agentctx") == f"{git(clone, 'rev-parse', 'HEAD')[:12]}-editable"

    assert named()
    git(clone, "pack-refs", "--all")
    assert named()
    git(clone, "commit", "--allow-empty", "--message", "two")
    assert named()
    git(clone, "checkout", "--detach")
    assert named()


@pytest.mark.parametrize("head", ["", "ref: refs/heads/.invalid", "\udcff", "ref: refs/heads/none", "zzz"])
def test_what_cannot_be_read_is_unknown(clone: Path, head: str) -> None:
    (clone / ".git" / "HEAD").write_text(head, errors="surrogateescape")
    assert commit_of(clone / "agentctx") == "unknown"
    assert commit_of(clone.parent / "elsewhere" / "agentctx") == "unknown"


def test_both_fields_are_shown() -> None:
    shown = [build_name("0.1.0", commit) for commit in ("0123456789ab", "unknown", "")]
    assert shown == ["0.1.0 (0123456789ab)", "0.1.0 (commit unknown)", "0.1.0 (commit not said)"]
