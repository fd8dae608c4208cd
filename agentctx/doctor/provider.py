"""Checks of the embedding provider: it is known, has its key, answers, and stays within its budget."""

from __future__ import annotations

from typing import Final

from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.inner import OFF, PROBE_S, Inner
from agentctx.embedding.providers.prices import format_usd
from agentctx.embedding.providers.registry import NONE, ProviderKind, describe_provider, provider_key
from agentctx.embedding.providers.spending import Spending
from agentctx.errors import UnknownProvider

KEY_HINT: Final = (
    "Put it into AGENTCTX_EMBEDDING__API_KEY, into a systemd credential named agentctx_embedding__api_key, "
    "or into embedding.api_key of a config file that only the daemon's user can read."
)


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


@check(Inner, "embedding.answers", timeout_s=PROBE_S)
async def check_answer(inner: Inner) -> Finding:
    return (await inner.embedding.probe()).finding


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
