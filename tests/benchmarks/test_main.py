from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.figures import Figure, at_most
from benchmarks.options import Options


@pytest.fixture
def value(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The value that the only benchmark measures, with a bar of 3."""
    measured = {"value": 1.0}

    async def measure(options: Options) -> list[Figure]:
        return [
            Figure(name="f", value=measured["value"] * options.size(1, 2), unit="ms", bar=at_most(3, "3"))
        ]

    monkeypatch.setattr(program, "BENCHMARKS", {"one": measure})
    return measured


def test_it_prints_the_table_writes_the_report_and_passes(
    value: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert program.main(["one", "--quick", "--json", str(report)]) == 0
    assert "pass" in capsys.readouterr().out
    written = json.loads(report.read_text())
    assert written["quick"] is True
    assert written["figures"][0]["value"] == 2
    assert {"cpu", "cores", "python", "sqlite", "commit", "openblas"} <= set(written["machine"])


def test_a_missed_bar_is_exit_code_1(value: dict[str, float], capsys: pytest.CaptureFixture[str]) -> None:
    value["value"] = 9.0
    assert program.main([]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_an_unknown_name_is_a_usage_error(value: dict[str, float]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["none-such"])
    assert ended.value.code == 2


def test_a_folder_without_sets_is_a_usage_error(
    value: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.main(["one", "--locomo", str(tmp_path)])
    assert "*/corpus.jsonl" in capsys.readouterr().err


def test_relevance_without_a_set_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["relevance"]) == 0
    assert "--scifact" in capsys.readouterr().out
