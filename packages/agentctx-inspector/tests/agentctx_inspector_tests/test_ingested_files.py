"""Files made of their entries."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from agentctx.ingest.names import escape_path, unescape_path
from agentctx.wire import EntryView, FileState
from agentctx_inspector.ingested_files import FileFilters, IngestedFile, count_of, files_of, visible

GONE = FileState(state="withdrawn", reason="gone", since="2026-11-29T00:00:00Z", until=None)


def part(source: str, number: int = 1, parts: int = 1, **other: Any) -> EntryView:
    fields: dict[str, Any] = {
        "id": f"{source}{number}", "version": 1, "live": True, "namespace": "docs", "collection": "knowledge",
        "key": source, "session": None, "agent": None, "content": "", "origin": "document",
        "trust": "external",
        "attributes": {"source": source, "file": {"part": number, "parts": parts}}, "principal": 1,
        "created": "2026-11-29T00:00:00Z", "updated": f"2026-11-29T00:00:0{number}Z", "expires": None,
        "embedding": "done",
    }  # fmt: skip
    return EntryView(**fields | other)


def test_the_parts_of_a_file_are_one_file() -> None:
    surplus = part("/a", 3, 3, file_state=GONE)
    files = files_of(
        [surplus, part("/a", 2, 2), part("/b"), part("/a", 1, 2), part("/a", collection="notes")]
    )
    assert [(each.source, len(each.entries)) for each in files] == [("/a", 3), ("/b", 1), ("/a", 1)]
    shrunk = files[0]
    assert (shrunk.parts, shrunk.state, shrunk.updated) == (2, None, "2026-11-29T00:00:03Z")


def test_what_waits_is_counted_by_entry_and_what_is_withdrawn_by_file() -> None:
    waiting = [part("/a", number, 2, embedding="pending") for number in (1, 2)]
    gone = [part("/b", number, 2, file_state=GONE, embedding="off") for number in (1, 2)]
    count = count_of("docs", files_of([*waiting, *gone]), is_all=True)
    assert (count.files, count.parts, count.waiting, count.withdrawn, count.stale) == (2, 4, 2, 1, 0)
    assert not count.is_off


@pytest.mark.parametrize(
    "path",
    [
        "/a/plain.md",
        '/a/it\'s "$(id)" `x`.md',
        "/a/two\nlines\\.md",
        "/a/\u202egnp.exe",
        "/a/\xa0\u00e9\U000e0001",
        "/a/\udce9'bytes",
    ],
)
def test_the_command_names_the_file_in_bash_and_hides_nothing(path: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is missing")
    command = IngestedFile("team", "notes", escape_path(path)).command
    assert command.isprintable()
    shown = command.replace("agentctx ingest", "printf '%s\\n'", 1)
    run = subprocess.run([bash, "-c", shown], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert run.stdout == b"--namespace\nteam\n--collection\nnotes\n" + os.fsencode(path) + b"\n"


def test_a_namespace_may_be_named_as_it_is_shown() -> None:
    for given in ("dir-x:/home/ann/my@20shop", "dir:/home/ann/my shop"):
        assert FileFilters.of(QueryParams({"namespace": given})).namespace == "dir-x:/home/ann/my@20shop"
    assert FileFilters.of(QueryParams({"namespace": "not valid!"})).namespace == "not valid!"


def test_names_hide_no_change_of_direction() -> None:
    assert visible("/a/\u202egnp.exe é") == "/a/\\u202egnp.exe é"
    assert unescape_path(visible("/a/\u202egnp.exe é")) == "/a/\u202egnp.exe é"
