"""Checks of the embedding provider: it is known, has its key, answers, and stays within its budget."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from agentctx.config.embedding import EmbeddingSettings
from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Embedding, Inner, ProbeAnswer
from agentctx.embedding.providers.canary import embed_canary
from agentctx.embedding.providers.prices import format_usd
from agentctx.embedding.providers.registry import (
    NONE,
    ProviderKind,
    create_provider,
    describe_provider,
    open_spending,
    provider_key,
)
from agentctx.embedding.providers.spending import Spending
from agentctx.errors import AgentctxError, ProviderFailed, UnknownProvider
from agentctx.times import Clock, wall_clock

OFF: Final = "embedding is off: embedding.provider is none"
LONGEST_PROBE_S: Final = 20.0
"""Longer than any answer that a question could wait for; the provider may be loading a model."""
PROBE_S: Final = LONGEST_PROBE_S + 5
"""Timeout of a check that asks the provider, so that the finding on the call shows first."""
KEY_HINT: Final = (
    "Put it into AGENTCTX_EMBEDDING__API_KEY, into a systemd credential named agentctx_embedding__api_key, "
    "or into embedding.api_key of a config file that only the daemon's user can read."
)


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


@check(Inner, "embedding.provider")
async def check_provider(inner: Inner) -> Finding:
    embedding = inner.embedding
    if embedding.problem is not None:
        return failed(embedding.problem.message, hint=embedding.problem.hint)
    if embedding.provider is None:
        return passed("off: keyword search only")
    return passed(f"{embedding.provider.id}, {embedding.provider.model}")


@check(Inner, "embedding.key")
async def check_key(inner: Inner) -> Finding:
    settings = inner.embedding.settings
    if settings.provider == NONE:
        return skipped(OFF)
    if isinstance(inner.embedding.problem, UnknownProvider):
        return skipped("unknown whether this provider needs a key")
    secret = provider_key(settings)
    key = secret.get_secret_value() if secret else ""
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


async def probe(embedding: Embedding) -> ProbeAnswer:
    """Embed the canary, once for all checks that need its vector."""
    if embedding.answer is None:
        embedding.answer = await _ask(embedding)
    return embedding.answer


async def _ask(embedding: Embedding) -> ProbeAnswer:
    if embedding.settings.provider == NONE:
        return ProbeAnswer(None, skipped(OFF))
    if embedding.provider is None:
        return ProbeAnswer(None, skipped("no provider is configured"))
    if embedding.offline and describe_provider(embedding.settings.provider).is_remote:
        return ProbeAnswer(None, skipped("not asked: --offline"))
    timeout_s = min(embedding.settings.queue.call_timeout_s, LONGEST_PROBE_S)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            vector = await embed_canary(embedding.provider)
    except TimeoutError:
        silent = failed(
            f"the provider did not answer within {timeout_s:g} s",
            hint="Check embedding.base_url and the network; search uses keywords meanwhile.",
        )
        return ProbeAnswer(None, silent)
    except ProviderFailed as error:
        return ProbeAnswer(None, failed(error.message, hint=error.hint or "See the daemon's log."))
    milliseconds = (time.perf_counter() - began) * 1_000
    return ProbeAnswer(vector, passed(f"embedded a text in {milliseconds:.0f} ms"))


@check(Inner, "embedding.answers", timeout_s=PROBE_S)
async def check_answer(inner: Inner) -> Finding:
    return (await probe(inner.embedding)).finding


@check(Inner, "embedding.spending", lambda inner: inner.embedding.spending)
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
