"""The canary: a known good text. It tells whether a provider is well, and its vector which model answers."""

from __future__ import annotations

from typing import Final

import numpy as np

from agentctx.embedding.providers.base import EmbeddingProvider, check_reply
from agentctx.storage.vectors import Vectors

CANARY: Final = "agentctx keeps what was saved, finds it by word and by meaning, and says so on 2026-01-01."
CANARY_COSINE: Final = 0.999
"""Below this similarity, the same model name refers to a different model."""
CANARY_S: Final = 10.0
"""The longest wait for its vector: a provider that takes longer answers no question in time either."""


async def embed_canary(provider: EmbeddingProvider) -> Vectors:
    """Embed the canary; return its vector `(dimension,)` of unit length. Raises `ProviderFailed`."""
    reply = await provider.embed([CANARY])
    canary: Vectors = check_reply(reply, count=1, dimension=0)[0]
    return canary


def canary_cosine(known: Vectors, seen: Vectors) -> float:
    """Return the cosine of two unit vectors of the canary; 0 if their dimensions differ."""
    return float(np.dot(known, seen)) if known.shape == seen.shape else 0.0


def is_same_model(known: Vectors, seen: Vectors) -> bool:
    """Return whether two unit vectors of the canary come from the same model."""
    return canary_cosine(known, seen) >= CANARY_COSINE
