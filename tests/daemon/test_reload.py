from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentctx.config.schema import Settings
from agentctx.daemon.reload import Reloader, decide
from agentctx.errors import ConfigInvalid


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def test_equal_settings_change_nothing() -> None:
    reload = decide(settings(), settings())
    assert (reload.changed, reload.needs_restart, reload.notice) == ((), (), "")


def test_changeable_settings_are_applied_and_the_others_reported() -> None:
    fresh = settings(
        log={"level": "debug"},
        embedding={"rag": {"max_results": 9, "enabled": False}, "api_key": "k"},
        injection={"store_prompts": True, "deadline_ms": 100},
        ingest={"withdrawn_ttl": "7d"},
    )
    reload = decide(settings(), fresh)
    assert sorted(reload.changed) == [
        "embedding.rag.max_results",
        "ingest.withdrawn_ttl",
        "injection.store_prompts",
        "log.level",
    ]
    assert reload.needs_restart == ("embedding.api_key", "embedding.rag.enabled", "injection.deadline_ms")
    assert reload.settings.embedding.rag.max_results == 9
    assert reload.settings.embedding.rag.enabled, "a section is applied completely or not at all"
    assert reload.settings.embedding.api_key is None
    assert (
        reload.notice == "Needs a restart: embedding.api_key, embedding.rag.enabled, injection.deadline_ms."
    )


def test_settings_that_still_need_a_restart_are_reported_again() -> None:
    fresh = settings(storage={"readers": 5})
    once = decide(settings(), fresh)
    assert decide(once.settings, fresh).needs_restart == ("storage.readers",)


def test_a_collection_that_needs_a_restart_is_not_searched_before() -> None:
    fresh = settings(collections={"runbooks": {}}, embedding={"rag": {"collections": ["runbooks"]}})
    reload = decide(settings(), fresh)
    assert reload.needs_restart == ("embedding.rag.collections", "collections")
    assert "runbooks" not in reload.settings.embedding.rag.collections


async def test_an_invalid_configuration_changes_nothing() -> None:
    def read_invalid() -> Settings:
        raise ConfigInvalid("agentctx.toml is no TOML", hint="Look at line 3.")

    running = settings()
    with capture_logs() as logs:
        reload = await Reloader(read_invalid).reload(running)
    assert reload.settings is running
    assert reload.notice == "The configuration was not reloaded: agentctx.toml is no TOML"
    assert [(line["event"], line["hint"]) for line in logs] == [("not_reloaded", "Look at line 3.")]


async def test_concurrent_reloads_read_once() -> None:
    reloader = Reloader(settings)
    reloader.request()
    reloader.request()
    await reloader.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await reloader.wait()
