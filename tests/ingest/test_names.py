import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.names import MAX_PLAIN_CHARS, escape_path, is_within, key_of, unescape_path

NAMES = st.binary(min_size=1, max_size=90).map(lambda name: name.replace(b"\0", b"_").replace(b"/", b"_"))
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(lambda names: os.fsdecode(b"/" + b"/".join(names)))
PARTS = st.integers(1, 1_000_000)


def is_taken(name: str, limit: int) -> bool:
    """Return whether the daemon accepts it as a key or source."""
    name.encode()
    return len(name) <= limit and not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name)


def test_most_paths_are_spelled_as_they_are() -> None:
    assert escape_path("/home/me/Büro (2)/notes #3.md") == "/home/me/Büro (2)/notes #3.md"


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("/a\nb", "/a\\u000ab"),
        (os.fsdecode(b"/caf\xe9"), "/caf\\xe9"),
        ("/a\\b", "/a\\\\b"),
        ("/\u2028", "/\\u2028"),
    ],
)
def test_unprintable_characters_are_escaped(path: str, spelled: str) -> None:
    assert escape_path(path) == spelled


@given(PATHS, PATHS)
def test_two_paths_never_have_one_spelling(one: str, other: str) -> None:
    assert (escape_path(one) == escape_path(other)) == (one == other)


@given(PATHS)
def test_the_spelling_keeps_the_folders(path: str) -> None:
    assert is_taken(escape_path(path), 10_000)
    assert is_within(escape_path(path), escape_path(path.rpartition("/")[0]))


@given(PATHS, PARTS)
def test_the_daemon_accepts_every_key(path: str, part: int) -> None:
    assert is_taken(key_of(escape_path(path), part), 256)


LIKE_PARTS = st.sampled_from(["/a", "/a#2", "/a#2#2", "/a#1", "/" + "a" * 300, "/" + "a" * 300 + "#2"])


@given(PATHS | LIKE_PARTS, PARTS, PATHS | LIKE_PARTS, PARTS)
def test_two_files_never_share_a_key(one: str, part: int, other: str, its_part: int) -> None:
    same = (one, part) == (other, its_part)
    assert (key_of(escape_path(one), part) == key_of(escape_path(other), its_part)) == same


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_every_path_is_found_again_by_its_source(name: bytes) -> None:
    path = os.fsdecode(name)
    assert unescape_path(escape_path(path)) == path


def test_a_name_that_ends_like_a_part_is_not_one() -> None:
    assert key_of("/notes#2") == "/notes\\u0023" + "2"
    assert key_of("/notes", 2) == "/notes#2"


def test_a_long_path_keeps_its_beginning_and_its_end() -> None:
    source = "/home/" + "folder/" * 50 + "the-notes-of-friday.md"
    key = key_of(source)
    assert len(key) > MAX_PLAIN_CHARS
    assert key.startswith("/home/folder/folder/")
    assert key.endswith("/the-notes-of-friday.md")


@pytest.mark.parametrize(
    ("source", "folder", "within"),
    [
        ("/a", "/a", True),
        ("/a/b", "/a", True),
        ("/ab", "/a", False),
        ("/a", "/a/b", False),
        ("/a", "/", True),
    ],
)
def test_within(source: str, folder: str, within: bool) -> None:
    assert is_within(source, folder) is within
