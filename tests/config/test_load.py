"""Where settings come from, and which source wins (REQ-EMB-008)."""

from __future__ import annotations

from errno import EACCES
from pathlib import Path

import pytest

from agentctx.config.load import effective_values, load_settings, read_settings, read_sources
from agentctx.config.origins import merge
from agentctx.errors import ConfigInvalid


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_without_any_source() -> None:
    settings = load_settings()
    assert settings.embedding.provider == "embedded"
    assert settings.embedding.rag.max_results == 5


def test_the_embedding_section_is_configurable(tmp_path: Path) -> None:
    config = write(
        tmp_path / "c.toml",
        """
        [embedding]
        provider = "fake"
        model = "m"
        dimensions = 12
        base_url = "http://localhost:1"
        [embedding.rag]
        enabled = false
        max_results = 3
        collections = ["knowledge"]
        max_distance = 0.8
        """,
    )
    embedding = load_settings(config).embedding
    assert (embedding.provider, embedding.model, embedding.dimensions) == ("fake", "m", 12)
    assert embedding.base_url == "http://localhost:1"
    assert (embedding.rag.enabled, embedding.rag.max_results) == (False, 3)
    assert (embedding.rag.collections, embedding.rag.max_distance) == (("knowledge",), 0.8)


def test_flags_beat_environment_beats_credentials_beat_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(
        tmp_path / "c.toml",
        'socket = "/file.sock"\ndata_dir = "/file"\n'
        '[embedding]\nprovider = "none"\nmodel = "file"\napi_key = "file"',
    )
    credentials = tmp_path / "credentials"
    write(credentials / "agentctx_embedding__api_key", "credential")
    write(credentials / "agentctx_embedding__model", "credential")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    monkeypatch.setenv("AGENTCTX_EMBEDDING__MODEL", "environment")
    monkeypatch.setenv("AGENTCTX_SOCKET", "/environment.sock")
    settings = load_settings(config, {"socket": Path("/flag.sock"), "data_dir": None})
    assert settings.socket == Path("/flag.sock")
    assert settings.data_dir == Path("/file")
    assert settings.embedding.provider == "none"
    assert settings.embedding.model == "environment"
    assert settings.embedding.api_key is not None
    assert settings.embedding.api_key.get_secret_value() == "credential"
    assert "credential" not in repr(settings.embedding.api_key)


def test_the_users_config_file_is_found(tmp_path: Path) -> None:
    write(tmp_path / "config" / "agentctx" / "config.toml", '[log]\nlevel = "debug"')
    assert load_settings().log.level == "debug"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("surprise = 1", "surprise"),
        ("[embedding]\nmodle = 'x'", "embedding.modle"),
        ("[embedding.queue]\nbatch_size = 'many'", "embedding.queue.batch_size"),
        ("[embedding", "TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_place(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load_settings(write(tmp_path / "c.toml", text))
    assert named in caught.value.message


def test_a_missing_named_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"Config file .* does not exist"):
        load_settings(tmp_path / "absent.toml")


def test_a_missing_file_that_the_environment_names_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "config" / "agentctx" / "config.toml", "")
    monkeypatch.setenv("AGENTCTX_CONFIG", str(tmp_path / "mistyped.toml"))
    with pytest.raises(ConfigInvalid, match=r"Config file .* does not exist") as caught:
        load_settings()
    assert "AGENTCTX_CONFIG" in caught.value.hint


def test_a_config_file_that_cannot_be_looked_at_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> bool:
        raise PermissionError(EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", closed)
    with pytest.raises(ConfigInvalid, match="permission denied") as caught:
        load_settings()
    assert "--config" in caught.value.hint


@pytest.mark.parametrize("name", ["AGENTCTX_EMBEDING__MODEL", "AGENTCTX_EMBEDDING__MODLE"])
def test_a_mistyped_variable_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigInvalid):
        load_settings()


def test_every_effective_value_tells_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(
        tmp_path / "c.toml",
        '[embedding]\nmodel = "m"\nprovider = "embedded"\n[collections.notes]\nttl = "30d"',
    )
    write(tmp_path / "credentials" / "agentctx_embedding__api_key", "hush")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    monkeypatch.setenv("AGENTCTX_EMBEDDING__THREADS", "2")
    reading = read_settings(config, {"data_dir": Path("/d")})
    assert reading.settings is not None

    values = {each.key: each for each in effective_values(reading.settings, reading.values)}

    assert (values["embedding.model"].value, values["embedding.model"].origin) == ("m", f"file:{config}")
    assert values["embedding.threads"].value == 2
    assert values["embedding.threads"].origin == "env AGENTCTX_EMBEDDING__THREADS"
    assert values["embedding.api_key"].origin == "credential agentctx_embedding__api_key"
    assert "hush" not in str(values["embedding.api_key"].value)
    assert (values["data_dir"].value, values["data_dir"].origin) == ("/d", "flag --data-dir")
    assert (values["collections.notes.ttl"].value, values["collections.notes.ttl"].changed) == ("30d", True)
    assert values["log.level"].origin == "default"
    said_but_equal = values["embedding.provider"]
    assert (said_but_equal.origin, said_but_equal.changed) == (f"file:{config}", False)


def test_a_list_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCTX_EMBEDDING__RAG__COLLECTIONS", '["knowledge"]')
    assert load_settings().embedding.rag.collections == ("knowledge",)
    monkeypatch.setenv("AGENTCTX_EMBEDDING__RAG__COLLECTIONS", "knowledge")
    with pytest.raises(ConfigInvalid, match="not valid JSON"):
        load_settings()


def test_variables_name_settings_in_any_case_and_other_variables_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = {
        "AGENTCTX_EMBEDDING__MODEL": "m",
        "agentctx_log__level": "debug",
        "AGENTCTX_CONFIG": "/c",
        "AGENTCTX_NAMESPACE": "team",
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
    assert merge(given) == {"log": {"level": "debug", "format": "json"}}
    assert {each.key: each.origin.name for each in given} == {
        "log.level": "AGENTCTX_LOG__LEVEL",
        "log.format": "AGENTCTX_LOG",
    }


def test_a_list_that_is_not_json_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert merge(given) == {"socket": "/flag"}
