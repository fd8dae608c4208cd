from __future__ import annotations

import json
from pathlib import Path

from benchmarks.retrieval_set import Query, read_set, read_sets


def _write(folder: Path, text: str) -> None:
    folder.mkdir()
    rows = [{"id": "1", "text": text}, {"id": "2", "text": "other"}]
    queries = [
        {"id": "q", "text": "Which?", "relevant": ["1"], "category": 2},
        {"id": "r", "text": "Nothing?", "relevant": []},
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))


def test_a_set_has_its_documents_and_the_questions_that_have_an_answer(tmp_path: Path) -> None:
    _write(tmp_path / "a", "first")
    found = read_set(tmp_path / "a")
    assert found.documents == {"1": "first", "2": "other"}
    assert found.queries == (Query("Which?", frozenset({"1"})),)


def test_sets_are_the_folders_inside_by_name(tmp_path: Path) -> None:
    _write(tmp_path / "b", "second")
    _write(tmp_path / "a", "first")
    (tmp_path / "notes").mkdir()
    assert [found.documents["1"] for found in read_sets(tmp_path)] == ["first", "second"]
