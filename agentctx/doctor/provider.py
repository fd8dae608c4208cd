"""Checks of the embedding provider: it is known, has its key, answers, and stays within its budget."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentctx.config.embedding import EmbeddingSettings
from agentctx.doctor.check import Check, Finding, failed, judging, passed, skipped, warned
from agentctx.embedding_providers.base import EmbeddingProvider, Vectors
from agentctx.embedding_providers.canary import embed_canary
from agentctx.embedding_providers.prices import format_usd
from agentctx.embedding_providers.registry import (
    NONE,
    ProviderKind,
    create_provider,
    describe_provider,
    open_spending,
    provider_key,
)
from agentctx.embedding_providers.spending import Clock, Spending
from agentctx.errors import AgentctxError, ProviderFailed, UnknownProvider
from agentctx.times import wall_clock

OFF: Final = "embedding is off: embedding.provider is none"
KEY_HINT: Final = (
    "Put it into AGENTCTX_EMBEDDING__API_KEY, into a systemd credential named agentctx_embedding__api_key, "
    "or into embedding.api_key of a config file that only the daemon's user can read."
)
LONGEST_PROBE_S: Final = 20.0
"""Longer than any answer that a question could wait for; the provider may be loading a model."""
_SLACK_S: Final = 5.0
"""Added to the timeout of a call to get that of its check, so that the check itself reports the timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The embedding settings, and the provider created from them."""

    settings: EmbeddingSettings
    provider: EmbeddingProvider | None
    """None if embedding is off, or if the provider could not be created."""
    problem: AgentctxError | None = None
    """Why the provider could not be created; None if it was."""
    spending: Spending | None = None
    """The provider's cost; None unless it is used over HTTP."""
    offline: bool = False
    """Whether to ask no provider outside this process."""
    is_next: bool = False
    """Whether this is the model of `embedding.next`, in use while [embedding] names the previous one."""

    @property
    def idle_reason(self) -> str | None:
        """Why the provider is not asked; None if it is."""
        if self.settings.provider == NONE:
            return OFF
        if self.provider is None:
            return "no provider is configured"
        if self.offline and describe_provider(self.settings.provider).is_remote:
            return "not asked: --offline"
        return None


def make_embedding(
    settings: EmbeddingSettings, *, offline: bool, folder: Path | None = None, clock: Clock = wall_clock
) -> Embedding:
    """Create the configured provider, or record why it cannot be. Nothing is loaded or asked.

    Its cost is counted in the data folder, if there is one.
    """
    try:
        spending = open_spending(settings, folder, clock)
        provider = create_provider(settings, spending)
        return Embedding(settings=settings, provider=provider, spending=spending, offline=offline)
    except AgentctxError as error:
        return Embedding(settings=settings, provider=None, problem=error, offline=offline)


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The canary's vector, of unit length or None, and the finding about the call."""

    vector: Vectors | None
    finding: Finding


class Probe:
    """Embeds the canary once for all checks that need its vector."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._answer: ProbeAnswer | None = None
        self.timeout_s = min(embedding.settings.queue.call_timeout_s, LONGEST_PROBE_S)

    async def answer(self) -> ProbeAnswer:
        if self._answer is None:
            self._answer = await self._ask()
        return self._answer

    async def _ask(self) -> ProbeAnswer:
        reason, provider = self._embedding.idle_reason, self._embedding.provider
        if reason is not None or provider is None:
            return ProbeAnswer(None, skipped(reason or OFF))
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.timeout_s):
                vector = await embed_canary(provider)
        except TimeoutError:
            silent = failed(
                f"the provider did not answer within {self.timeout_s:g} s",
                hint="Check embedding.base_url and the network; search uses keywords meanwhile.",
            )
            return ProbeAnswer(None, silent)
        except ProviderFailed as error:
            return ProbeAnswer(None, failed(error.message, hint=error.hint or "See the daemon's log."))
        milliseconds = (time.perf_counter() - began) * 1_000
        return ProbeAnswer(vector, passed(f"embedded a text in {milliseconds:.0f} ms"))


def provider_checks(embedding: Embedding, probe: Probe) -> list[Check]:
    answers = judging(probe.answer, lambda answer: answer.finding)
    return [
        Check(id="embedding.provider", run=lambda: judge_provider(embedding)),
        Check(id="embedding.key", run=lambda: _check_key(embedding)),
        Check(id="embedding.answers", run=answers, timeout_s=probe.timeout_s + _SLACK_S),
    ]


def judge_provider(embedding: Embedding) -> Finding:
    if embedding.problem is not None:
        return failed(embedding.problem.message, hint=embedding.problem.hint)
    if embedding.provider is None:
        return passed("off: keyword search only")
    return passed(f"{embedding.provider.id}, {embedding.provider.model}")


def _check_key(embedding: Embedding) -> Finding:
    settings = embedding.settings
    if settings.provider == NONE:
        return skipped(OFF)
    if isinstance(embedding.problem, UnknownProvider):
        return skipped("unknown whether this provider needs a key")
    found = provider_key(settings)
    key = found.get_secret_value() if found else ""
    return judge_key(settings.provider, describe_provider(settings.provider), key)


def judge_key(provider_id: str, kind: ProviderKind, key: str) -> Finding:
    """Judge the key. No finding contains the key itself."""
    if not kind.needs_key:
        return passed(f"{provider_id} needs no key")
    if not key.strip():
        return failed(f"{provider_id} needs a key, but embedding.api_key is not set", hint=KEY_HINT)
    if key.startswith("$"):
        return failed(
            "embedding.api_key is the name of a variable, not its value; variables are not expanded",
            hint=KEY_HINT,
        )
    if key != key.strip():
        return warned(
            "embedding.api_key begins or ends with whitespace or a line break",
            hint="Remove it, for example with `printf %s`; providers refuse such a key.",
        )
    return passed(f"{provider_id} has its key")


def judge_spending(spending: Spending | None) -> Finding:
    if spending is None:
        return passed("no HTTP provider, no cost")
    today = spending.today()
    tokens = f"{today.tokens:,} tokens"
    if spending.price is None:
        return passed(f"{tokens} today; no published price known")
    usd, cap = format_usd(today.usd), format_usd(spending.cap_usd)
    if spending.is_cap_reached:
        return warned(
            f"{usd} of {cap} for today are spent: embedding pauses until 00:00 UTC, search uses keywords",
            hint="Raise embedding.limits.usd_per_day and restart, or wait; no pending job is lost.",
        )
    of_cap = f" of {cap}" if spending.cap_usd else ""
    return passed(
        f"{usd}{of_cap} today, {tokens}" + ("" if spending.cap_usd else "; no cap is set"),
        detail=f"${spending.price.usd_per_million_tokens:g} a million tokens ({spending.price.source})",
    )
