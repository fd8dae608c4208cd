from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.schema import Settings
from agentctx.doctor.catalog import select
from agentctx.doctor.check import run_checks
from agentctx.doctor.config_file import secret_paths
from agentctx.errors import ConfigInvalid
from agentctx.wire import CheckResult
from tests.doctor.contexts import machine

KEY = "sk-secret"


async def results(path: Path | None, problem: ConfigInvalid | None = None) -> tuple[CheckResult, CheckResult]:
    loads, secrets = await run_checks(select(["config"]), machine(config=path, config_problem=problem))
    assert KEY not in repr((loads, secrets))
    return loads, secrets


def config(folder: Path, text: str, mode: int = 0o644) -> Path:
    path = folder / "c.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


async def test_it_names_the_file_that_is_read(tmp_path: Path) -> None:
    path = config(tmp_path, '[embedding]\nprovider = "none"\n')
    loads, secrets = await results(path)
    assert (loads.status, loads.message) == ("pass", f"{path} loads")
    assert secrets.status == "pass"


async def test_a_missing_file_is_reported_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTX_CONFIG", str(tmp_path / "none.toml"))
    loads, secrets = await results(None)
    assert (loads.status, secrets.status) == ("pass", "skip")
    assert str(tmp_path / "none.toml") in loads.detail


async def test_an_invalid_file_is_a_failure_with_its_problem(tmp_path: Path) -> None:
    path = config(tmp_path, "[embeding]\n")
    loads, _ = await results(path, ConfigInvalid("embeding: unknown setting", hint="Did you mean embedding?"))
    assert (loads.status, loads.message) == ("fail", "embeding: unknown setting")
    assert loads.hint == "Did you mean embedding?"


@pytest.mark.parametrize(("mode", "status"), [(0o600, "pass"), (0o640, "warn"), (0o644, "warn")])
async def test_a_key_that_others_may_read(tmp_path: Path, mode: int, status: str) -> None:
    path = config(tmp_path, f'[embedding]\napi_key = "{KEY}"\n', mode)
    _, secrets = await results(path)
    assert (secrets.status, secrets.fixable) == (status, False)


SECRETS = {
    "embedding.api_key",
    "embedding.next.api_key",
    "rerank.api_key",
    "proxy.openai_key",
    "proxy.anthropic_key",
    "proxy.gemini_key",
}


def test_every_secret_of_the_schema_is_known() -> None:
    assert {".".join(path) for path in secret_paths(Settings)} >= SECRETS


@pytest.mark.parametrize("key", sorted(SECRETS))
async def test_any_key_that_others_may_read(tmp_path: Path, key: str) -> None:
    _, secrets = await results(config(tmp_path, f'{key} = "{KEY}"\n'))
    assert secrets.status == "warn"


@pytest.mark.parametrize("text", ["[embedding", 'embedding = "x"'])
async def test_an_unparsable_file_has_no_key(tmp_path: Path, text: str) -> None:
    _, secrets = await results(config(tmp_path, text))
    assert secrets.status in {"skip", "pass"}
