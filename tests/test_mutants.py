"""Faults are put in, found by tests, and known again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import KILLED, SURVIVED, Mutant, files_of, mutants
from tests.pure_coverage import ROOT

MODULE = "agentctx.embedding.queue.batch"
FILE = "agentctx/embedding/queue/batch.py"


def test_each_fault_has_a_name_of_its_own_and_changes_the_code() -> None:
    found = mutants(ROOT / FILE)
    assert len(found) > 20
    assert all(each.module == MODULE and each.function for each in found)
    assert [each for each in found if len(set(each.text.split(" #")[0].split(" -> "))) == 1] == []


def test_the_test_of_the_modules_name_runs_first() -> None:
    own, *others = files_of(Mutant(MODULE, "", ""))
    assert own == [str(ROOT / "tests/embedding/queue/test_batch.py")]
    assert others


@pytest.mark.slow
def test_a_fault_is_tried_again_and_reported_when_it_is_not_found_any_more(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    first = _mutants(FILE, "--count", "4", "--out", str(before))
    assert first.returncode == 0, first.stdout
    rows = json.loads(before.read_text())
    assert KILLED in {state for *_, state in rows}

    rows = [[*fault, KILLED] for *fault, _ in rows] + [[MODULE, "gone", "a -> b", KILLED]]
    before.write_text(json.dumps(rows))
    again = _mutants("--baseline", str(before), "--out", str(after))
    lost = [now for now in json.loads(after.read_text()) if now[3] == SURVIVED]
    assert again.returncode == bool(lost), again.stdout
    assert f"lost: {len(lost)}" in again.stdout.replace("\n", " ")


def _mutants(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
