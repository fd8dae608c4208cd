"""Every problem with its place and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.load import read_settings
from agentctx.config.problems import Problem, config_invalid, line_of, takes_json

TOML = """\
socket = "/s"  # line 1

[embedding]
model = "m"
rag.max_results = 3

[ embedding.queue ]
batch_size = 1

[collections.notes]
ttl = "30d"
"""


def problems_of(tmp_path: Path, text: str) -> list[Problem]:
    file = tmp_path / "c.toml"
    file.write_text(text, encoding="utf-8")
    reading = read_settings(file)
    assert reading.settings is None
    return reading.problems


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("socket",), 1),
        (("embedding", "model"), 4),
        (("embedding", "rag", "max_results"), 5),
        (("embedding", "queue", "batch_size"), 8),
        (("embedding", "queue"), 7),
        (("collections", "notes", "ttl"), 11),
        (("collections", "notes", "absent"), 10),
        (("log", "level"), None),
    ],
)
def test_a_setting_is_found_in_its_file(path: tuple[str, ...], line: int | None) -> None:
    assert line_of(TOML, path) == line


def test_all_problems_are_reported_each_with_its_line(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path,
        '[embedding]\nmodle = "x"\n[embedding.queue]\nbatch_size = 0\n[log]\nlevel = "loud"\n'
        '[embedding.rag]\ncollections = ["nope"]\n',
    )
    assert {(problem.place.rpartition(":")[2], problem.key) for problem in found} == {
        ("2", "embedding.modle"),
        ("4", "embedding.queue.batch_size"),
        ("6", "log.level"),
    }


def test_a_rule_about_several_settings_names_the_one_to_change(tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path, '[embedding.rag]\ncollections = ["nope"]\n')
    assert problem.key == "embedding.rag.collections"
    assert problem.place.endswith("c.toml:2")
    assert problem.message == "unknown collection 'nope'; declare it in [collections]"
    assert "collections searched" in problem.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[embedding]\nmodle = 'x'", "Did you mean model?"),
        ("[log]\nzzzz = 1", "Known keys: level, format."),
        ("[collections.notes]\ntttl = '1d'", "Did you mean ttl?"),
        ("[collections.notes]\nttl = 'x'", "how long entries are kept"),
        ("[embedding.queue]\nbatch_size = 'x'", "(default: 32)"),
        ("log = 3", ""),
        ("[server.socket_mode]\nx = 1", "mode of the socket file"),
    ],
)
def test_the_hint_suggests_a_name_or_lists_the_valid_ones(tmp_path: Path, text: str, hint: str) -> None:
    assert hint in problems_of(tmp_path, text)[0].hint


def test_a_variable_is_named_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTX_EMBEDDING__RAG__COLLECTIONS", "knowledge")
    monkeypatch.setenv("AGENTCTX_EMBEDDING__QUEUE__BATCH_SIZE", "many")
    json, number = read_settings().problems
    assert json.place == "env AGENTCTX_EMBEDDING__RAG__COLLECTIONS"
    assert json.message.startswith("not valid JSON")
    assert number.place == "env AGENTCTX_EMBEDDING__QUEUE__BATCH_SIZE"


@pytest.mark.parametrize(("content", "said"), [(b"\xff", "is not UTF-8"), (b"[a", "is not valid TOML")])
def test_an_unreadable_file_is_one_problem(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(content)
    [problem] = read_settings(file).problems
    assert problem.place == str(file)
    assert said in problem.message


def test_credentials_that_cannot_be_read_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "absent"))
    [problem] = read_settings().problems
    assert str(tmp_path / "absent") in problem.place


def test_the_error_of_a_start_stays_short() -> None:
    many = [Problem("/c.toml:1", f"k{number}", "unknown setting", "") for number in range(9)]
    error = config_invalid(many)
    assert error.message.count("unknown setting") == 5
    assert error.message.endswith("and 4 more.")
    assert "agentctx config check" in error.hint


def test_only_lists_and_tables_are_json() -> None:
    assert takes_json(("embedding", "rag", "collections"))
    assert takes_json(("embedding",))
    assert takes_json(("collections",))
    assert takes_json(("collections", "notes"))
    assert not takes_json(("collections", "notes", "ttl"))
    assert not takes_json(("embedding", "model"))
    assert not takes_json(("unknown",))
