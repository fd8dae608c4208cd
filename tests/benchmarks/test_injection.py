from __future__ import annotations

import json
from pathlib import Path

from benchmarks.injection import Outcome, Shown, false_rate, of_judge, read_worlds


def test_a_false_injection_is_anything_at_all() -> None:
    right, wrong = Shown(0.5, is_right=True), Shown(0.5, is_right=False)
    outcomes = [Outcome(False, False, (wrong, right)), Outcome(False, False), Outcome(True, True, (right,))]
    assert false_rate(outcomes) == 1 / 3
    assert [each.others for each in outcomes] == [1, 0, 0]


def test_what_is_shown_is_compared_with_the_share_of_right_passages() -> None:
    outcomes = [
        Outcome(True, True, (Shown(1.0, True), Shown(0.81, False), Shown(0.2, True)), read=4),
        Outcome(False, False, (Shown(0.39, False), Shown(0.39, False)), read=1),
        Outcome(False, False),
        Outcome(False, False),
    ]
    figures = {each.name: (each.value, each.unit) for each in of_judge(outcomes)}
    assert figures == {
        "worlds: pairs read by the judge, mean": (1.25, ""),
        "worlds, shown as 0.2 to 0.4: right": (1 / 3, "of 3"),
        "worlds, shown as 0.8 to 1: right": (0.5, "of 2"),
    }


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
