from pathlib import Path

import pytest

from agentctx_importers.records import Record, RefusedItem, Unreadable
from agentctx_importers.server_memory import SOURCE
from agentctx_importers_tests.samples import SAMPLES, write_lines


def test_an_entity_has_its_observations_and_relations(tmp_path: Path) -> None:
    path = SAMPLES["server-memory"].make(tmp_path)
    ann, basel = SOURCE.read(path.parent)
    assert isinstance(ann, Record)
    assert isinstance(basel, Record)
    assert ann.content == "Ann\nLikes trains\nIs 40\nlives in → Basel"
    assert (ann.key, ann.tags) == ("server-memory/Ann", ("server-memory", "person"))
    assert ann.created == int(path.stat().st_mtime * 1000)
    assert basel.content == "Basel\nOn the Rhine"


def test_lines_that_are_something_else_are_refused_and_the_others_read(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "memory.jsonl", ["entity"], {"type": "entity", "name": "", "observations": []}, {"type": 1}
    )
    file.write_bytes(file.read_bytes() + b'{"type":"entity","name":"A","observations":["b",3]}\n{"type":')
    items = list(SOURCE.read(file))
    assert [type(each) for each in items] == [RefusedItem, RefusedItem, RefusedItem, Record, RefusedItem]
    assert [each.where for each in items if isinstance(each, RefusedItem)] == [
        f"memory.jsonl:{number}" for number in (1, 2, 3, 5)
    ]


def test_the_usual_place_is_what_the_server_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SOURCE.usual() == []
    monkeypatch.setenv("MEMORY_FILE_PATH", str(tmp_path / "m.jsonl"))
    assert SOURCE.usual() == [tmp_path / "m.jsonl"]


def test_a_folder_without_a_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"has no memory\.jsonl"):
        list(SOURCE.read(tmp_path))
