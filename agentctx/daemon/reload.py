"""Reloads the configuration while the daemon runs: applies what can change, and reports the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from pydantic import BaseModel

from agentctx.config.embedding import RagSettings
from agentctx.config.schema import Settings
from agentctx.config.section import Section
from agentctx.errors import AgentctxError
from agentctx.wire import COLLECTIONS

log = structlog.get_logger("agentctx.daemon")

_RAG_AT_START = ("enabled", "cache_entries")
"""Fixed at start: whether the proxy adds context, and the size of the cache."""

_AT_ONCE = ("log", "access", "ingest", "review")


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of a reload. `settings` are the ones to run with from now on."""

    settings: Settings
    changed: tuple[str, ...] = ()
    """Keys whose new value is in effect."""
    needs_restart: tuple[str, ...] = ()
    """Keys whose new value needs a restart."""
    problem: str | None = None
    """Why the configuration cannot be used; in that case nothing has changed."""

    @property
    def notice(self) -> str:
        """One sentence for `systemctl status`; empty if there is nothing to report."""
        if self.problem is not None:
            return f"The configuration was not reloaded: {self.problem}"
        return f"Needs a restart: {', '.join(self.needs_restart)}." if self.needs_restart else ""


class Reloader:
    """Reloads the configuration on request.

    `read_settings` returns the settings from all sources, or raises `AgentctxError` if they cannot be used.
    """

    def __init__(self, read_settings: Callable[[], Settings]) -> None:
        self._read_settings = read_settings
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Request a reload soon; several requests before it cause only one."""
        self._requested.set()

    async def wait(self) -> None:
        """Wait until a reload is requested."""
        await self._requested.wait()
        self._requested.clear()

    async def reload(self, running: Settings) -> Reload:
        """Read all sources and decide which settings to use. A broken file is logged and changes nothing."""
        try:
            fresh = await asyncio.to_thread(self._read_settings)
        except AgentctxError as error:
            log.error("not_reloaded", code=error.code, problem=error.message, hint=error.hint)  # noqa: TRY400 - no bug
            return Reload(running, problem=error.message)
        reload = decide(running, fresh)
        log.info("reloaded", changed=reload.changed, needs_restart=reload.needs_restart)
        return reload


def decide(running: Settings, fresh: Settings) -> Reload:
    """Decide which fresh settings to adopt, and which differing ones need a restart. Pure."""
    adopted = adopt(running, fresh)
    return Reload(adopted, tuple(differing(running, adopted)), tuple(differing(adopted, fresh)))


def adopt(running: Settings, fresh: Settings) -> Settings:
    """Return the running settings, with fresh values for those that can change while the daemon runs:
    `log`, `access`, `ingest`, most of `embedding.rag`, and `injection.store_prompts`.
    """
    embedding = running.embedding.model_copy(update={"rag": _rag(running, fresh.embedding.rag)})
    injection = running.injection.model_copy(update={"store_prompts": fresh.injection.store_prompts})
    changes = {name: getattr(fresh, name) for name in _AT_ONCE}
    return running.model_copy(update={**changes, "embedding": embedding, "injection": injection})


def differing(one: BaseModel, other: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the keys whose values differ, like `embedding.rag.max_results`."""
    for name in type(one).model_fields:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, Section):
            yield from differing(mine, theirs, f"{prefix}{name}.")
        elif mine != theirs:
            yield prefix + name


def _rag(running: Settings, fresh: RagSettings) -> RagSettings:
    kept = list(_RAG_AT_START)
    if not {*COLLECTIONS, *running.collections}.issuperset(fresh.collections):
        kept.append("collections")  # names a collection that exists only after a restart
    return fresh.model_copy(update={name: getattr(running.embedding.rag, name) for name in kept})
