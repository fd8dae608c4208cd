"""Cuts a list of texts into requests that a provider takes. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctx.embedding_providers.base import ProviderLimits


def most_tokens(text: str) -> int:
    """An upper bound of the tokens of a text: no byte-level tokenizer makes more tokens than bytes."""
    return max(1, len(text.encode()))


def requests_within(texts: Sequence[str], limits: ProviderLimits) -> Iterator[Sequence[str]]:
    """The texts in order, in slices that keep both limits. A text over the token limit goes alone."""
    start, tokens = 0, 0
    for end, text in enumerate(texts):
        more = most_tokens(text)
        full = end - start >= limits.max_inputs
        if end > start and (full or (limits.max_tokens is not None and tokens + more > limits.max_tokens)):
            yield texts[start:end]
            start, tokens = end, 0
        tokens += more
    if start < len(texts):
        yield texts[start:]
