import os
import socket
from pathlib import Path

import pytest

from agentctx.errors import InvalidInput
from agentctx.ingest.ignore import MAX_BYTES
from agentctx.ingest.names import MAX_SOURCE_CHARS
from agentctx.ingest.walk import (
    TOO_LONG,
    ExcludedPath,
    FoundFile,
    UnreadablePath,
    WalkSelection,
    folder_identity,
    parse_size,
    walk,
)


def plant(root: Path, *names: str, text: str = "text\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def seen(root: Path, scopes: list[str] | None = None, **selection: object) -> dict[str, str]:
    """Return the outcome of each path, relative to the root."""
    outcome = {}
    wanted = None if scopes is None else [str(root / scope) for scope in scopes]
    for each in walk(str(root), WalkSelection(**selection), wanted):  # type: ignore[arg-type]  # keywords of a test
        match each:
            case FoundFile():
                what = "found"
            case ExcludedPath(reason=what) | UnreadablePath(problem=what):
                pass
        outcome[os.path.relpath(each.path, root)] = what
    return outcome


def test_files_come_in_the_order_of_names_each_folder_after_its_files(tmp_path: Path) -> None:
    plant(tmp_path, "b/1", "b/c/2", "z", "a/3", "b/4")
    assert list(seen(tmp_path)) == ["z", "a/3", "b/1", "b/4", "b/c/2"]


def test_file_metadata_is_returned(tmp_path: Path) -> None:
    plant(tmp_path, "a", text="12345")
    os.utime(tmp_path / "a", ns=(1, 1_700_000_000_123_456_789))
    assert list(walk(str(tmp_path), WalkSelection())) == [
        FoundFile(f"{tmp_path}/a", 5, 1_700_000_000_123_456_789, folder=folder_identity(str(tmp_path)))
    ]


def test_hidden_names_are_left_out_unless_wanted(tmp_path: Path) -> None:
    plant(tmp_path, ".env", ".cache/x", "a")
    assert seen(tmp_path) == {".cache": "hidden", ".env": "hidden", "a": "found"}
    assert seen(tmp_path, hidden=True) == {".cache/x": "found", ".env": "found", "a": "found"}


def test_version_control_is_left_out_always(tmp_path: Path) -> None:
    plant(tmp_path, ".git/HEAD", "CVS/Root", ".hg/x", "sub/.git")
    outcome = seen(tmp_path, hidden=True, ignore_files=False)
    assert set(outcome.values()) == {"version control"}
    assert seen(tmp_path / ".git") == {".": "version control"}


def test_ignored_folders_are_not_entered(tmp_path: Path) -> None:
    plant(tmp_path, "node_modules/a/b", "x.log", "a.md")
    (tmp_path / ".gitignore").write_text("node_modules/\n*.log\n")
    assert seen(tmp_path) == {
        ".gitignore": "hidden",
        "a.md": "found",
        "node_modules": "ignored",
        "x.log": "ignored",
    }
    assert seen(tmp_path, ignore_files=False)["node_modules/a/b"] == "found"


@pytest.mark.parametrize(
    ("include", "found"),
    [
        (("*.md",), {"a.md", "docs/b.md", "docs/deep/c.md"}),
        (("docs/",), {"docs/b.md", "docs/deep/c.md", "docs/d.txt"}),
        (("docs/*.md",), {"docs/b.md"}),
        (("/a.md", "*.txt"), {"a.md", "docs/d.txt"}),
    ],
)
def test_include(tmp_path: Path, include: tuple[str, ...], found: set[str]) -> None:
    plant(tmp_path, "a.md", "docs/b.md", "docs/deep/c.md", "docs/d.txt")
    outcome = seen(tmp_path, include=include)
    assert {path for path, what in outcome.items() if what == "found"} == found
    assert set(outcome.values()) == {"found", "not included"}


def test_exclude_takes_precedence_over_include_and_prunes_folders(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "docs/b.md", "docs/c.md")
    assert seen(tmp_path, include=("*.md",), exclude=("docs",)) == {"a.md": "found", "docs": "excluded"}


def test_links_are_not_followed_and_loops_cannot_be(tmp_path: Path) -> None:
    plant(tmp_path, "a/real")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "file").symlink_to(tmp_path / "a" / "real")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    links = {"a/loop": "symbolic link", "file": "symbolic link", "nowhere": "symbolic link"}
    assert seen(tmp_path) == {"a/real": "found", **links}


def test_a_named_link_is_followed(tmp_path: Path) -> None:
    plant(tmp_path, "a/real")
    (tmp_path / "folder").symlink_to(tmp_path / "a")
    (tmp_path / "file").symlink_to(tmp_path / "a" / "real")
    assert seen(tmp_path / "folder") == {"real": "found"}
    (found,) = walk(str(tmp_path / "file"), WalkSelection())
    assert isinstance(found, FoundFile)
    assert found.is_named


def test_a_named_file_may_be_hidden_and_ignored_but_not_excluded(tmp_path: Path) -> None:
    plant(tmp_path, ".env")
    (tmp_path / ".gitignore").write_text("*\n")
    assert seen(tmp_path / ".env") == {".": "found"}
    assert seen(tmp_path / ".env", exclude=(".*",)) == {".": "excluded"}
    assert seen(tmp_path / ".env", include=("*.md",)) == {".": "not included"}


def test_pipes_sockets_and_large_files_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    plant(tmp_path, "large", text="x" * 11)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert seen(tmp_path, max_bytes=10) == {
            "large": "larger than 10 bytes",
            "pipe": "not a regular file",
            "socket": "not a regular file",
        }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, "closed/a", "open/b")
    (tmp_path / "closed").chmod(0)
    try:
        assert seen(tmp_path) == {"closed": "permission denied", "open/b": "found"}
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_missing_root_is_reported(tmp_path: Path) -> None:
    assert seen(tmp_path / "gone") == {".": "no such file or directory"}


def test_names_that_are_not_utf8_are_found(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    plant(tmp_path, name)
    assert seen(tmp_path) == {name: "found"}


def test_scopes_narrow_the_walk_and_the_rules_on_the_way_still_hold(tmp_path: Path) -> None:
    plant(tmp_path, "a/b/c.md", "a/b/d.log", "a/e.md", "f.md", "build/g.md")
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n")
    assert seen(tmp_path, ["a/b"]) == {"a/b/c.md": "found", "a/b/d.log": "ignored"}
    assert seen(tmp_path, ["a/e.md", "gone"]) == {"a/e.md": "found"}
    assert seen(tmp_path, ["build/g.md"]) == {"build": "ignored"}


def test_a_folder_with_more_rules_than_are_read_is_left_out_whole(tmp_path: Path) -> None:
    plant(tmp_path, "a.md", "sub/b.md", "sub/deep/c.md")
    (tmp_path / "sub" / ".gitignore").write_text("x\n" * MAX_BYTES)
    outcome = seen(tmp_path)
    assert outcome["a.md"] == "found"
    assert "ignore files" in outcome["sub"]
    assert not {"sub/b.md", "sub/deep/c.md"} & outcome.keys()
    assert "ignore files" in seen(tmp_path / "sub" / "deep" / "..")["."]


def test_globs_are_compared_byte_by_byte_beyond_ascii(tmp_path: Path) -> None:
    plant(tmp_path, "Größe.md", "Grüße.md")
    assert seen(tmp_path, include=("Größe*",)) == {"Größe.md": "found", "Grüße.md": "not included"}


def test_folders_deeper_than_a_source_may_be_are_not_entered(tmp_path: Path) -> None:
    folder, depth = tmp_path, 0
    while len(str(folder)) < MAX_SOURCE_CHARS:
        folder, depth = folder / ("d" * 200), depth + 1
    folder.mkdir(parents=True)
    ((path, reason),) = seen(tmp_path).items()
    assert path.count("/") == depth - 1
    assert reason == TOO_LONG


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500), ("200kB", 200_000), ("10MB", 10_000_000), ("1.5 GB", 1_500_000_000), ("2MiB", 2_097_152)],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "10 apples", "1e3", "10TBs", "\u0663MB"])
def test_anything_else_is_not_a_size(text: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid size"):
        parse_size(text)


OF_EDITORS = ("n1.md~", "#n1.md#", ".#n1.md", ".n1.md.swp", "4913", "n1.md___jb_tmp___", "n1.md___jb_old___")
OF_OTHERS = (".goutputstream-X1", "n1.md.vsctmp", ".tmp456", "n1.md.tmp456", "n1.md.tmp.12.345", "~$n1.docx")
KEPT = ("n1.md", "n1.bak", "tmp.md", "4914", "#1.md", "n1.tmpl", "a~b", "n1.swp.md")


def test_copies_that_editors_make_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, *OF_EDITORS, *OF_OTHERS, *KEPT)
    seen = list(walk(str(tmp_path), WalkSelection(hidden=True)))
    assert sorted(Path(each.path).name for each in seen if isinstance(each, FoundFile)) == sorted(KEPT)
    assert {each.reason for each in seen if isinstance(each, ExcludedPath)} == {"an editor's copy"}
    (named,) = walk(str(tmp_path / "n1.md~"), WalkSelection())
    assert isinstance(named, FoundFile)
    included = walk(str(tmp_path), WalkSelection(include=("*~",)))
    assert [Path(each.path).name for each in included if isinstance(each, FoundFile)] == ["n1.md~"]
