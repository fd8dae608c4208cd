"""What environment, credentials and file say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.origins import merged
from agentctx.config.sources import read_sources


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTCTX_SOCKET", raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


def test_variables_name_settings_in_any_case_and_other_variables_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = {
        "AGENTCTX_EMBEDDING__MODEL": "m",
        "agentctx_log__level": "debug",
        "AGENTCTX_CONFIG": "/c",
        "AGENTCTXX": "no",
        "AGENTCTX_SOCKET": "",
        "AGENTCTX_EMBEDDING__BASE_URL": "",
        "AGENTCTX_EMBEDING__MODEL": "mistyped",
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    given, problems = read_sources(None, {})
    assert problems == []
    assert {each.key: (each.value, each.origin.name) for each in given} == {
        "embedding.model": ("m", "AGENTCTX_EMBEDDING__MODEL"),
        "log.level": ("debug", "agentctx_log__level"),
        "embedding.base_url": ("", "AGENTCTX_EMBEDDING__BASE_URL"),
        "embeding.model": ("mistyped", "AGENTCTX_EMBEDING__MODEL"),
    }


def test_lists_and_tables_are_json_and_a_part_beats_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTX_LOG__LEVEL", "debug")
    monkeypatch.setenv("AGENTCTX_LOG", '{"level": "error", "format": "json"}')
    given, _ = read_sources(None, {})
    assert merged(given) == {"log": {"level": "debug", "format": "json"}}
    assert {each.key: each.origin.name for each in given} == {
        "log.level": "AGENTCTX_LOG__LEVEL",
        "log.format": "AGENTCTX_LOG",
    }


def test_a_list_that_is_no_json_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTX_EMBEDDING__RAG__COLLECTIONS", "a,b")
    _, [problem] = read_sources(None, {})
    assert (problem.place, problem.key) == (
        "env AGENTCTX_EMBEDDING__RAG__COLLECTIONS",
        "embedding.rag.collections",
    )
    assert problem.message.startswith("not valid JSON")


def test_credentials_are_files_without_the_line_break_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "agentctx_embedding__api_key").write_text("secret\n", encoding="utf-8")
    (tmp_path / "another_service").write_text("x", encoding="utf-8")
    [credential], _ = read_sources(None, {})
    assert (credential.key, credential.value) == ("embedding.api_key", "secret")
    assert str(credential.origin) == "credential agentctx_embedding__api_key"


def test_a_missing_folder_of_credentials_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "gone"))
    given, [problem] = read_sources(None, {})
    assert given == []
    assert "gone" in problem.place


@pytest.mark.parametrize(("content", "says"), [(b"a = [", "not valid TOML"), (b"a = \xff", "UTF-8")])
def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(content)
    given, [problem] = read_sources(file, {})
    assert given == []
    assert problem.place == str(file)
    assert says in problem.message


def test_the_strongest_source_is_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.toml"
    file.write_text('socket = "/file"', encoding="utf-8")
    monkeypatch.setenv("AGENTCTX_SOCKET", "/env")
    given, _ = read_sources(file, {"socket": "/flag"})
    assert [str(each.origin) for each in given] == [f"file:{file}", "env AGENTCTX_SOCKET", "flag --socket"]
    assert merged(given) == {"socket": "/flag"}
