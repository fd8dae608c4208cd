"""Reloading the configuration while the daemon runs: what can change at once does, the rest is reported."""

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
"""The proxy is made with or without context; the cache is made with its size."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of a reload. `settings` are the ones to run with now."""

    settings: Settings
    changed: tuple[str, ...] = ()
    """Keys that have a new value now."""
    at_restart: tuple[str, ...] = ()
    """Keys whose new value takes a restart."""
    problem: str | None = None
    """Why the configuration cannot be used; then nothing was changed."""

    @property
    def notice(self) -> str:
        """In one sentence, for `systemctl status`; empty when there is nothing to say."""
        if self.problem is not None:
            return f"The configuration was not reloaded: {self.problem}"
        return f"Needs a restart: {', '.join(self.at_restart)}." if self.at_restart else ""


class Reloader:
    """Reads the configuration again whenever it is asked to.

    `reread` gives the settings of all sources, or raises `AgentctxError` when they cannot be used.
    """

    def __init__(self, reread: Callable[[], Settings]) -> None:
        self._reread = reread
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have it read again soon. Asked several times before that, it reads once."""
        self._asked.set()

    async def asked(self) -> None:
        """Wait until a reload is requested."""
        await self._asked.wait()
        self._asked.clear()

    async def reload(self, running: Settings) -> Reload:
        """Read all sources and decide what to run with. A broken file changes nothing and is logged."""
        try:
            fresh = await asyncio.to_thread(self._reread)
        except AgentctxError as error:
            log.error("not_reloaded", code=error.code, problem=error.message, hint=error.hint)  # noqa: TRY400 - no bug
            return Reload(running, problem=error.message)
        reload = decide(running, fresh)
        log.info("reloaded", changed=reload.changed, needs_restart=reload.at_restart)
        return reload


def decide(running: Settings, fresh: Settings) -> Reload:
    """What of the fresh settings is adopted, and which of the others differ. Pure."""
    adopted = adopt(running, fresh)
    return Reload(adopted, tuple(differing(running, adopted)), tuple(differing(adopted, fresh)))


def adopt(running: Settings, fresh: Settings) -> Settings:
    """The running settings with the values of the fresh ones where these can change while the daemon runs:
    `log`, `access`, `embedding.rag` but for a few, and `injection.store_prompts`.
    """
    embedding = running.embedding.model_copy(update={"rag": _rag(running, fresh.embedding.rag)})
    injection = running.injection.model_copy(update={"store_prompts": fresh.injection.store_prompts})
    changes = {"log": fresh.log, "access": fresh.access, "embedding": embedding, "injection": injection}
    return running.model_copy(update=changes)


def differing(one: BaseModel, other: BaseModel, prefix: str = "") -> Iterator[str]:
    """Keys, like `embedding.rag.max_results`, whose values differ."""
    for name in type(one).model_fields:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, Section):
            yield from differing(mine, theirs, f"{prefix}{name}.")
        elif mine != theirs:
            yield prefix + name


def _rag(running: Settings, fresh: RagSettings) -> RagSettings:
    kept = list(_RAG_AT_START)
    if not {*COLLECTIONS, *running.collections}.issuperset(fresh.collections):
        kept.append("collections")  # it names one that is declared only at the next start
    return fresh.model_copy(update={name: getattr(running.embedding.rag, name) for name in kept})
