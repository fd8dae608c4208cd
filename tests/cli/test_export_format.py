from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.cli.export_format import entry_line, header_line, read_entry, read_header
from agentctx.errors import InvalidInput
from agentctx.wire import EntryView, ExportedEntry, FileState

ENTRY = EntryView(
    id="01a201d0-1506-73cf-bf84-3e1d336b4e70",
    version=2,
    live=True,
    namespace="team",
    collection="knowledge",
    key="deploy",
    session=None,
    agent="coder",
    content="Deploy with make ship.",
    attributes={"category": "fact", "tags": []},
    origin="user",
    trust="agent",
    principal=1000,
    created="2026-11-20T08:00:00.000Z",
    updated="2026-11-21T08:00:00.000Z",
    expires=None,
    embedding="done",
)


def exported(**changes: Any) -> ExportedEntry:
    return ExportedEntry(entry=replace(ENTRY, **changes), versions=[], chunks=[[0, 22]])


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_an_entry_round_trips_as_one_line(content: str) -> None:
    line = entry_line(exported(content=content))
    assert "\n" not in line
    (entry,) = read_entry(line)
    assert (entry.content, entry.key, entry.created) == (content, "deploy", ENTRY.created)


def test_versions_come_before_the_live_one() -> None:
    older = replace(ENTRY, version=1, content="Older.")
    line = entry_line(ExportedEntry(entry=ENTRY, versions=[older], chunks=[]))
    assert [entry.content for entry in read_entry(line)] == ["Older.", ENTRY.content]


def test_the_state_of_a_file_travels_with_its_entry() -> None:
    state = FileState(state="withdrawn", reason="gone", since=ENTRY.created, until=None)
    (entry,) = read_entry(entry_line(exported(file_state=state)))
    assert entry.file_state == state
    with pytest.raises(InvalidInput, match="`file_state`"):
        read_entry(json.dumps({**json.loads(entry_line(exported())), "file_state": {"state": "stale"}}))


def test_vectors_carry_their_model() -> None:
    with_vectors = replace(exported(), fingerprint={"model": "m"}, vectors=["AAAA", None])
    assert json.loads(entry_line(with_vectors))["vectors"] == {
        "fingerprint": {"model": "m"},
        "float32": ["AAAA", None],
    }


@pytest.mark.parametrize("line", ["", "no", "[]", "{}", '{"agentctx_export": 2}'])
def test_another_file_is_refused(line: str) -> None:
    with pytest.raises(InvalidInput):
        read_header(line)


def test_its_own_header_is_known() -> None:
    read_header(header_line(history=True, vectors=False))


@pytest.mark.parametrize(
    "line", ["no", "[]", "[" * 100_000, '{"id": 1}', '{"versions": 1}', '{"versions": [1]}', "{}"]
)
def test_a_malformed_line_is_refused(line: str) -> None:
    with pytest.raises(InvalidInput):
        read_entry(line)


@pytest.mark.parametrize("name", ["id", "content", "attributes", "key", "created"])
@pytest.mark.parametrize("value", [1, [], True])
def test_a_wrong_type_is_named(name: str, value: object) -> None:
    line = {**json.loads(entry_line(exported())), name: value}
    with pytest.raises(InvalidInput, match=name):
        read_entry(json.dumps(line))
