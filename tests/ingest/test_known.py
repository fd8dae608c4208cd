from typing import Any

import pytest

from agentctx.ingest.known import KnownFile, Labels, ListedPath, StoredPart, list_known
from agentctx.ingest.names import key_of
from agentctx.wire import FileRecord, SaveRequest
from tests.ingest.memory import Memory


def held(**changes: Any) -> StoredPart:
    fields: dict[str, Any] = {
        "id": "i",
        "digest": "d",
        "size": 1,
        "modified": 2,
        "parts": 1,
        "labels": Labels(),
    }
    return StoredPart(**{**fields, **changes})


def remember(memory: Memory, source: str, part: int = 1, parts: int = 1, **changes: Any) -> None:
    record = FileRecord(digest="d", size=1, modified=2, part=part, parts=parts, places=[[0, 1]])
    request = SaveRequest(
        **{"collection": "knowledge", "content": "x", "source": source, "file": record, **changes}
    )
    memory.entries[key_of(source, part)] = request


def known(memory: Memory, *paths: ListedPath, namespace: str = "default") -> dict[str, KnownFile]:
    return list_known(memory, paths, namespace=namespace, collection="knowledge", listed=list[int]().append)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ({1: held()}, True),
        ({1: held(parts=2), 2: held(parts=2)}, True),
        ({1: held(parts=2)}, False),
        ({2: held(parts=2)}, False),
        ({1: held(parts=2), 3: held(parts=2)}, False),
        ({1: held(), 2: held(parts=2)}, False),
        ({1: held(parts=2), 2: held(parts=2, digest="e")}, False),
        ({1: held(parts=2), 2: held(parts=2, modified=3)}, False),
        ({1: held(parts=2), 2: held(parts=2, labels=Labels(tags=("a",)))}, False),
    ],
)
def test_a_file_is_whole_when_all_parts_were_made_of_the_same_bytes(
    parts: dict[int, StoredPart], whole: bool
) -> None:
    assert KnownFile("/a", parts).is_whole is whole


def test_parts_are_put_together_by_source() -> None:
    memory = Memory()
    remember(memory, "/d/a", 2, 2)
    remember(memory, "/d/a", 1, 2, tags=["t"], category="rule", agent="me")
    remember(memory, "/d/b")
    files = known(memory, ListedPath("/d", is_folder=True))
    assert {source: file.ids for source, file in files.items()} == {
        "/d/a": ["/d/a", "/d/a#2"],
        "/d/b": ["/d/b"],
    }
    assert files["/d/a"].first.labels == Labels(tags=("t",), category="rule", agent="me")


def test_neighbours_other_namespaces_and_entries_without_a_file_are_not_listed() -> None:
    memory = Memory()
    remember(memory, "/d/a")
    remember(memory, "/d/ab")
    remember(memory, "/d/a/b")
    remember(memory, "/d/a/c", namespace="other")
    memory.entries["/d/a/note"] = SaveRequest(collection="knowledge", key="/d/a/note", content="by hand")
    assert set(known(memory, ListedPath("/d/a"))) == {"/d/a", "/d/a/b"}
    assert set(known(memory, ListedPath("/d/a", is_folder=True))) == {"/d/a/b"}
    assert set(known(memory, ListedPath("/d"), namespace="other")) == {"/d/a/c"}


def test_files_below_long_folders_and_with_shortened_keys_are_found() -> None:
    memory = Memory()
    folder = "/" + "long/" * 40 + "folder"
    sources = {f"{folder}/a", f"{folder}/{'b' * 200}"}
    for source in sources:
        remember(memory, source)
    remember(memory, folder + "-beside")
    assert set(known(memory, ListedPath(folder, is_folder=True))) == sources
    assert set(known(memory, ListedPath("/long", is_folder=True))) == {*sources, folder + "-beside"}


def test_the_root_of_the_file_system_is_a_folder_like_others() -> None:
    memory = Memory()
    remember(memory, "/a")
    assert set(known(memory, ListedPath("/", is_folder=True))) == {"/a"}
