import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentctx.wire import ImportEntry
from agentctx_importers.mem0 import SOURCE
from agentctx_importers.records import Record, RefusedItem, Unreadable
from agentctx_importers.restricted_pickle import point_of

FIXTURE = Path(__file__).with_name("fixtures") / "mem0"
"""Made by `make_mem0.py`."""


def test_the_store_of_the_real_mem0_is_read() -> None:
    basel, trains, peanuts, ours = SOURCE.read(FIXTURE)
    assert isinstance(basel, Record)
    assert isinstance(trains, Record)
    assert isinstance(peanuts, Record)
    assert basel.content == "Lives in Basel"
    assert basel.created
    assert basel.updated
    assert basel.created < basel.updated
    assert (trains.session, trains.tags) == ("trip-1", ("mem0", "user:ann"))
    assert (peanuts.agent, peanuts.category) == ("planner", "preference")
    assert peanuts.tags == ("mem0", "user:ann", "health")
    assert isinstance(ours, ImportEntry)


def test_what_agentctx_gave_the_real_mem0_comes_back_unchanged() -> None:
    (given,) = json.loads((FIXTURE.parent / "to_mem0.json").read_text("utf-8"))
    known = json.loads(given["metadata"]["agentctx"])
    ours = [each for each in SOURCE.read(FIXTURE) if isinstance(each, ImportEntry)]
    assert [(each.id, each.key, each.content) for each in ours] == [
        (known["id"], "deploy: window", "Deploys happen on Tuesdays.")
    ]
    assert (ours[0].created, ours[0].updated) == (known["created"], known["updated"])
    assert ours[0].attributes == {"category": "rule", "tags": ["ops", "a, b"]}


def write(file: Path, value: Any) -> Path:
    file.write_text(json.dumps(value), "utf-8")
    return file


HOSTED = {
    "id": "3c90c3cc",
    "memory": "Allergic to peanuts",
    "metadata": {"category": "health", "place": "Basel", "n": 3},
    "categories": ["food"],
    "user_id": "ann",
    "run_id": None,
    "created_at": "2026-05-31T05:31:56-07:00",
    "updated_at": None,
    "expiration_date": "2030-01-01",
}


@pytest.mark.parametrize(
    "wrapped", [[HOSTED], {"results": [HOSTED]}, {"count": 1, "results": [HOSTED], "next": None}]
)
def test_what_get_all_returned_is_read(wrapped: Any, tmp_path: Path) -> None:
    items = [each for each in SOURCE.read(write(tmp_path / "m.json", wrapped)) if isinstance(each, Record)]
    (found,) = items
    assert (found.id, found.content, found.category) == ("3c90c3cc", "Allergic to peanuts", "health")
    assert found.tags == ("mem0", "user:ann", "Basel", "food")
    assert (found.created, found.updated) == (1780230716000, None)
    assert found.expires == 1893456000000


def test_a_memory_without_text_or_id_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "m.json", [{"id": "1"}, {"memory": "text"}, 3, {"id": "1", "memory": " "}])
    assert [type(each) for each in SOURCE.read(file)] == [RefusedItem] * 4


def test_a_text_that_mem0_changed_is_as_new_as_mem0_says(tmp_path: Path) -> None:
    (given,) = json.loads((FIXTURE.parent / "to_mem0.json").read_text("utf-8"))
    changed = {
        "id": "1",
        "memory": "Deploys happen on Mondays.",
        "metadata": given["metadata"],
        "updated_at": "2036-01-01T00:00:00+00:00",
    }
    (found,) = SOURCE.read(write(tmp_path / "m.json", [changed]))
    assert isinstance(found, ImportEntry)
    assert found.updated == "2036-01-01T00:00:00.000Z"


class Evil:
    """A pickle of this runs a command when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, (f"touch {self.marker}",)


def test_a_pickle_that_would_run_code_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    store = tmp_path / "storage.sqlite"
    store.write_bytes((FIXTURE / "collection" / "mem0" / "storage.sqlite").read_bytes())
    marker = tmp_path / "ran"
    connection = sqlite3.connect(store)
    connection.execute("INSERT INTO points VALUES ('x', ?)", (pickle.dumps(Evil(marker)),))
    connection.execute("INSERT INTO points VALUES ('y', ?)", ("text",))
    connection.commit()
    connection.close()
    kinds = [type(each) for each in SOURCE.read(store)]
    assert kinds == [RefusedItem, RefusedItem, Record, Record, Record, ImportEntry]
    assert not marker.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\ngetattr\n.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\x00\x00.",  # BINBYTES8 of 2^48 bytes
        b"\x80\x04]r\xff\xff\xff\x7f.",  # LONG_BINPUT far beyond the memo
        b"(" * 10_000 + b".",
        pickle.dumps({"payload": {}}),
        pickle.dumps(3),
    ],
)
def test_other_pickles_are_no_points(data: bytes) -> None:
    assert point_of(data) is None


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="has no"):
        list(SOURCE.read(tmp_path))
