"""What an ingest is going to cost, said before anything is sent, and whether it may proceed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from agentctx.cli.output import complain, note
from agentctx.embedding_providers.prices import CostEstimate, estimate_cost, needs_consent, shown_usd
from agentctx.errors import AccessDenied, InvalidInput

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.ingest.report import Report
    from agentctx.wire import ProviderCost, ProviderStatus

EXIT_DECLINED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


class CostGate:
    """Says what a pass will cost, and lets it through.

    Args:
        is_rehearsal: nothing will be sent, so no question is asked.
        is_approved: `--yes`.
        may_ask: whether stdin and stderr belong to a user who can answer.
        quiet: say it only when it matters.
    """

    def __init__(
        self, client: Client, *, is_rehearsal: bool, is_approved: bool, may_ask: bool, quiet: bool
    ) -> None:
        self._client = client
        self._needs_consent = not (is_rehearsal or is_approved)
        self._may_ask = may_ask
        self._quiet = quiet

    def pass_with(self, size: int, report: Report) -> None:
        """Return if files of so many bytes may be sent; nothing is asked where embedding costs nothing.

        Raises:
            typer.Exit: 2 when it costs more than may be spent without asking and no user can be asked, 1 when
                the answer was no, 130 on Ctrl-C.
        """
        from agentctx.ingest.report import Cost

        try:
            provider = self._client.status().provider
        except AccessDenied:
            return  # what it costs is between the operator and the provider
        if provider.cost is None or not size:
            return
        estimate = estimate_cost(size, provider.cost.usd_per_million_tokens)
        report.cost = Cost(tokens=estimate.tokens, usd=estimate.usd, model=provider.model)
        is_dear = needs_consent(estimate, provider.cost.confirm_usd)
        if is_dear or not self._quiet:
            note(cost_line(estimate, provider, provider.cost))
        if is_dear and self._needs_consent:
            self._consent(estimate, provider.cost.confirm_usd)

    def _consent(self, estimate: CostEstimate, confirm_usd: float) -> None:
        from agentctx.ingest.interrupt import at_once

        if not self._may_ask:
            complain(_refusal(estimate, confirm_usd))
            raise typer.Exit(EXIT_REFUSED)
        try:
            with at_once():
                is_wanted = typer.confirm("Go on?", err=True)
        except typer.Abort:
            print(file=sys.stderr)
            raise typer.Exit(EXIT_INTERRUPTED) from None
        if not is_wanted:
            note("nothing was sent")
            raise typer.Exit(EXIT_DECLINED)


def cost_line(estimate: CostEstimate, provider: ProviderStatus, cost: ProviderCost) -> str:
    """One line for people."""
    tokens = f"about {estimate.tokens:,} tokens to embed with {provider.id} {provider.model}"
    if estimate.usd is None:
        return (
            f"{tokens}; no published price known for {provider.model}; "
            "set embedding.limits.usd_per_million_tokens"
        )
    price = f"${cost.usd_per_million_tokens:g} a million, {cost.price_source}"
    return f"{tokens}, {shown_usd(estimate.usd)} ({price})"


def _refusal(estimate: CostEstimate, confirm_usd: float) -> InvalidInput:
    return InvalidInput(
        f"Embedding this costs about {shown_usd(estimate.usd or 0.0)}, more than {shown_usd(confirm_usd)}; "
        "nothing was sent.",
        hint="Pass --yes to continue, or raise embedding.limits.confirm_usd in the daemon's config.",
    )
