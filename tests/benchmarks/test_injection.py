from __future__ import annotations

import json
from pathlib import Path

from benchmarks.injection import Outcome, false_rate, read_worlds


def test_a_false_injection_is_anything_at_all() -> None:
    assert false_rate([Outcome(False, False, 2), Outcome(False, False, 0), Outcome(True, True, 0)]) == 1 / 3


def test_worlds_are_read_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memories.jsonl").write_text(json.dumps({"id": "m1", "text": name}) + "\n")
        (tmp_path / name / "prompts.jsonl").write_text("")
    worlds = read_worlds(tmp_path)
    assert [(world.name, world.memories[0]["text"], world.prompts) for world in worlds] == [
        ("a", "a", []),
        ("b", "b", []),
    ]
