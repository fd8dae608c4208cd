"""The protocols of embedding providers, and checks that they share.

Shapes: `embed` returns a C-contiguous float32 array `(n, dimension)`, `embed_query` one row `(dimension,)`.
Rows have unit length, and `embed([x])[0]` equals `embed_query(x)` bit for bit for every provider as shipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

MODEL_CHANGED_HINT: Final = (
    "Restart the daemon: it notices, and embeds everything again, while search uses keywords. "
    "Or bring the former model back."
)
DIMENSION_HINT: Final = (
    "Bring the former model back if it was replaced; or set embedding.dimensions to the model's dimension, "
    "or to 0 for its own, and restart the daemon, which embeds everything again."
)


class Embedder(Protocol):
    """The spec's embedder. `dimension` is 0 while it is not known yet."""

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, `(len(texts), dimension)`. Raises `ProviderFailed`."""

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector `(dimension,)`, on a lane that no batch blocks. Raises `ProviderFailed`."""


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """The limits of one request; the provider splits longer lists."""

    max_inputs: int
    max_tokens: int | None = None
    longest_wait_s: float = 0.0
    """How long a call of `embed` may wait under our own rate limits before anything is sent."""


class EmbeddingProvider(Embedder, Protocol):
    """An embedder that the daemon can own."""

    @property
    def id(self) -> str:
        """The id in the config: `embedded`, `fake`, `openai` …"""

    @property
    def model(self) -> str: ...

    @property
    def limits(self) -> ProviderLimits: ...

    @property
    def fingerprint(self) -> Mapping[str, str | int]:
        """Everything that determines a text's vector. Spaces with different fingerprints never mix."""

    @property
    def cpu_seconds(self) -> float:
        """CPU time this process has spent embedding; 0 if another machine does the work."""

    async def aclose(self) -> None:
        """Release the provider's resources; idempotent."""


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows scaled to length 1.

    Raises:
        ProviderFailed: a row is not finite or is zero (sqlite-vec would rank a NaN first).
    """
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        raise ProviderFailed(
            "The model returned a vector that is not finite or is zero.", disposition=Disposition.SPLIT
        )
    return np.ascontiguousarray(vectors / norms[:, None], dtype=np.float32)


def check_reply(vectors: Vectors, *, count: int, dimension: int, is_learned: bool = False) -> Vectors:
    """Return a provider's reply scaled to unit length, after checking its shape and rows.

    `is_learned`: the dimension is that of an earlier reply, not of the settings.

    Raises:
        ProviderFailed: wrong count (retry), wrong dimension (stop), bad row (split).
    """
    if vectors.ndim != 2 or vectors.shape[0] != count:
        raise ProviderFailed(f"Expected {count} vectors, got an array of shape {vectors.shape}.")
    if dimension and vectors.shape[1] != dimension:
        raise ProviderFailed(
            f"Expected vectors of length {dimension}, got {vectors.shape[1]}.",
            disposition=Disposition.STOP,
            hint=MODEL_CHANGED_HINT if is_learned else DIMENSION_HINT,
        )
    return unit_rows(vectors)


def require_unicode(texts: Sequence[str]) -> None:
    """Check that every text can be encoded as UTF-8; NUL and all other characters are allowed.

    Raises:
        ProviderFailed: a text contains a lone surrogate (bury if it is the only text, else split).
    """
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise ProviderFailed(
            "A text contains a lone surrogate and is not valid Unicode.",
            disposition=Disposition.BURY if len(texts) == 1 else Disposition.SPLIT,
            hint="Save the text again, decoded with errors='replace'.",
        ) from None


async def embed_questions(provider: EmbeddingProvider, texts: Sequence[str]) -> Vectors:
    """Return the vectors of questions, at once if they are those of the same texts, otherwise one by one."""
    model = provider.fingerprint
    if model.get("query_prefix") == model.get("document_prefix") and not model.get("input_types"):
        return await provider.embed(texts)
    return np.stack([await provider.embed_query(text) for text in texts])


def token_bound(text: str) -> int:
    """Return an upper bound on a text's tokens: no byte-level tokenizer makes more tokens than bytes."""
    return max(1, len(text.encode()))


def requests_within(texts: Sequence[str], limits: ProviderLimits) -> Iterator[Sequence[str]]:
    """Yield the texts in order, in slices within both limits. A text over the token limit goes alone."""
    start, tokens = 0, 0
    for end, text in enumerate(texts):
        more = token_bound(text)
        full = end - start >= limits.max_inputs
        if end > start and (full or (limits.max_tokens is not None and tokens + more > limits.max_tokens)):
            yield texts[start:end]
            start, tokens = end, 0
        tokens += more
    if start < len(texts):
        yield texts[start:]
