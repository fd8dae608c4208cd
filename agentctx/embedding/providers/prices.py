"""The cost of embedding: published prices, and estimates from sizes. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BYTES_PER_TOKEN: Final = 3
"""English has four or more UTF-8 bytes per token, Chinese about three, so estimates tend to be high."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in USD per million tokens. `source` names who published it, and when."""

    usd_per_million_tokens: float
    source: str

    def usd(self, tokens: int) -> float:
        """Return the cost of the tokens."""
        return tokens * self.usd_per_million_tokens / 1_000_000


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The estimated tokens of a text and the cost of embedding them; None if no price is known."""

    tokens: int
    usd: float | None


def _published(usd_per_million_tokens: float, month: str) -> Price:
    return Price(usd_per_million_tokens, f"published, as of {month}")


PUBLISHED: Final[dict[tuple[str, str], Price]] = {
    ("openai", "text-embedding-3-small"): _published(0.02, "2026-05"),
    ("openai", "text-embedding-3-large"): _published(0.13, "2026-05"),
    ("openai", "text-embedding-ada-002"): _published(0.10, "2026-05"),
    ("google", "gemini-embedding-2"): _published(0.20, "2026-05"),
    ("google", "gemini-embedding-001"): _published(0.15, "2026-05"),
    ("cohere", "embed-v4.0"): _published(0.12, "2026-06"),
    ("voyage", "voyage-4-large"): _published(0.12, "2026-07"),
    ("voyage", "voyage-4"): _published(0.06, "2026-07"),
    ("voyage", "voyage-4-lite"): _published(0.02, "2026-07"),
    ("voyage", "voyage-3.5"): _published(0.06, "2026-05"),
    ("voyage", "voyage-3-large"): _published(0.18, "2026-05"),
}
"""The vendor's standard price of text by provider id and model, with the month of the source."""


def price_of(provider_id: str, model: str, configured: float = 0.0) -> Price | None:
    """Return the configured price (USD per million tokens), else the published one; None if unknown."""
    if configured > 0:
        return Price(configured, "embedding.limits.usd_per_million_tokens")
    return PUBLISHED.get((provider_id, model.removeprefix("models/")))


def estimate_tokens(size: int) -> int:
    """Estimate the tokens of a text of `size` UTF-8 bytes; tends to be high, and is at least one."""
    return max(1, -(-size // BYTES_PER_TOKEN))


def estimate_cost(size: int, usd_per_million_tokens: float | None) -> CostEstimate:
    """Estimate the cost of embedding texts of `size` UTF-8 bytes in total; 0 bytes cost nothing."""
    tokens = estimate_tokens(size) if size else 0
    if usd_per_million_tokens is None:
        return CostEstimate(tokens, None)
    return CostEstimate(tokens, Price(usd_per_million_tokens, "").usd(tokens))


def needs_consent(estimate: CostEstimate, confirm_usd: float) -> bool:
    """Return whether the cost needs approval. Without a known price it never exceeds the threshold."""
    return bool(confirm_usd) and estimate.usd is not None and estimate.usd > confirm_usd


def format_usd(usd: float) -> str:
    """Format an amount for people: `$12.35`, `$0.0042`, `$0.000025`, `$0.00`."""
    if usd >= 0.1 or usd == 0:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= 0.001 else f"${max(usd, 1e-6):.6f}"
