import json
import tomllib
from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.cli.config import commented_out, shipped_config
from agentctx.config.load import effective_values, read_settings
from tests.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AGENTCTX_CONFIG", "AGENTCTX_SOCKET", "CREDENTIALS_DIRECTORY", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agentctx" / "config.toml"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_every_value_is_shown_with_its_source(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(file, "[embedding]\nthreads = 2\n")
    monkeypatch.setenv("AGENTCTX_EMBEDDING__API_KEY", "hush")

    assert run(["--socket", "/s", "config", "show", "--data-dir", "/d"]) == 0

    out, err = capsys.readouterr()
    assert err == f"note: read from {file}\n"
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in out.splitlines()}
    assert rows["data_dir"] == ['"/d"', "flag --data-dir"]
    assert rows["socket"] == ['"/s"', "flag --socket"]
    assert rows["embedding.threads"] == ["2", f"file:{file}"]
    assert rows["embedding.api_key"] == ['"**********"', "env AGENTCTX_EMBEDDING__API_KEY"]
    assert rows["log.level"] == ['"info"', "default"]
    assert "hush" not in out


def test_default_paths_are_shown_resolved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    values = {each["key"]: each for each in shown["settings"]}
    assert shown["file"] is None
    assert values["data_dir"] == {
        "key": "data_dir",
        "value": str(tmp_path / "agentctx"),
        "origin": "default",
        "changed": False,
    }
    assert values["socket"]["value"] == str(tmp_path / "agentctx" / "agentctx.sock")


def test_only_changed_values_can_be_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "--changed"]) == 0
    nothing = "note: no config file: defaults and environment; all settings have their defaults\n"
    assert capsys.readouterr() == ("", nothing)
    write(file, '[embedding]\nthreads = 2\nprovider = "embedded"\n')
    assert run(["config", "show", "--changed", "--json"]) == 0
    assert [each["key"] for each in json.loads(capsys.readouterr().out)["settings"]] == ["embedding.threads"]


def test_long_values_are_truncated_and_changes_highlighted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, f'[embedding]\nbase_url = "http://{"x" * 200}"\n')
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["config", "show"]) == 0
    lines = terminal.written().splitlines()
    [changed] = [line for line in lines if "embedding.base_url" in line]
    assert changed.startswith("\x1b[1membedding.base_url")
    assert "…" in changed
    assert max(map(len, lines)) <= 200 + len("\x1b[1m\x1b[0m")


def test_check_of_a_valid_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == "ok  no config file: defaults and environment\n"
    shipped = Path(__file__).parents[2] / "config" / "agentctx.toml"
    assert run(["config", "check", "--config", str(shipped), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "file": str(shipped), "problems": []}


def test_the_template_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(commented_out(shipped_config()))
    reading = read_settings(file)
    assert reading.problems == []
    assert reading.settings is not None
    values = effective_values(reading.settings, reading.values)
    assert not [each.key for each in values if each.changed and each.origin.startswith("file")]


def test_each_setting_can_be_uncommented() -> None:
    shipped = shipped_config()
    written = commented_out(shipped).splitlines()
    for line, original in zip(written, shipped.splitlines(), strict=True):
        assert line in {original, f"# {original}"}
    assert "[server]" in written
    assert tomllib.loads("\n".join(written)).keys() == tomllib.loads(shipped).keys()
