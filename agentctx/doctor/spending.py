"""What was the provider paid today, and is the cap reached."""

from __future__ import annotations

from agentctx.doctor.check import Check, Finding, passed, warned
from agentctx.doctor.provider import Embedding
from agentctx.embedding_providers.prices import shown_usd
from agentctx.embedding_providers.spending import Spending


def spending_check(embedding: Embedding) -> Check:
    async def run() -> Finding:
        return judge_spending(embedding.spending)

    return Check(id="embedding.spending", run=run)


def judge_spending(spending: Spending | None) -> Finding:
    if spending is None:
        return passed("no HTTP provider, no cost")
    today = spending.today()
    tokens = f"{today.tokens:,} tokens"
    if spending.price is None:
        return passed(f"{tokens} today; no published price known")
    usd, cap = shown_usd(today.usd), shown_usd(spending.cap_usd)
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
