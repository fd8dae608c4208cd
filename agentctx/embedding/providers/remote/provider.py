"""The embedding provider over HTTP; services differ in wire format, address and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.fair_queue import yield_admission
from agentctx.embedding.providers.base import (
    ProviderLimits,
    check_reply,
    requests_within,
    require_unicode,
)
from agentctx.embedding.providers.prices import estimate_tokens
from agentctx.embedding.providers.rate_limits import RateLimits
from agentctx.embedding.providers.remote.http import Address, HttpClient
from agentctx.embedding.providers.remote.wire_format import OpenAIFormat
from agentctx.embedding.providers.spending import Spending
from agentctx.storage.vectors import Vectors

BATCH_LANES: Final = 4
"""Concurrent batches: far fewer than connections, so that a question always finds a free one."""
_MAX_REPLY_BYTES: Final = 64 * 2**20
_REPLY_BYTES: Final = 2**20
_REPLY_BYTES_PER_TEXT: Final = 256 * 2**10
"""Enough for 10,000 numbers written out."""


class RemoteProvider:
    """Embeds over HTTP. Nothing is opened or sent before the first call.

    Args:
        provider_id: the id in the config.
        settings: the dimension to request (0 means the model's own, known after the first reply), the time
            limit of one request with its answer, and the prefixes: if they differ, a text gets a different
            vector as a question.
        wire_format: the service's wire format.
        address: the service's address.
        limits: limits of one request; longer lists are sent in several.
        rates: rate limits of the requests.
        spending: counts the cost of requests and may refuse them.
    """

    cpu_seconds = 0.0

    def __init__(
        self,
        provider_id: str,
        settings: EmbeddingSettings,
        *,
        wire_format: OpenAIFormat,
        address: Address,
        limits: ProviderLimits,
        rates: RateLimits,
        spending: Spending,
    ) -> None:
        self.id = provider_id
        self.model = wire_format.model
        self.name = f"{provider_id} {self.model}"
        self.dimension = settings.dimensions
        self.limits = limits
        self._settings = settings
        self._wire_format = wire_format
        self._base_url = address.base_url
        self._rates = rates
        self._spending = spending
        self._http = HttpClient(address, timeout_s=settings.queue.call_timeout_s)
        self._batch_lanes = asyncio.Semaphore(BATCH_LANES)

    @property
    def fingerprint(self) -> Mapping[str, str | int]:
        """`dimension` is the requested one, so that the fingerprint is the same before and after a reply.

        `input_types` is included only when it is on, so spaces older than the option stay valid.
        """
        return {
            "provider": self.id,
            "base_url": self._base_url,
            "model": self.model,
            "dimension": self._settings.dimensions,
            "query_prefix": self._settings.query_prefix,
            "document_prefix": self._settings.document_prefix,
            **({"input_types": 1} if self._settings.input_types else {}),
        }

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, `(len(texts), dimension)`, in as many requests as the limits require.

        Raises:
            ProviderFailed: the service refused or failed at least one of the requests.
            SpendCapReached: a request would cost more than what remains for today.
        """
        self._http.require_open()
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        require_unicode(texts)
        sent = _with_prefix(self._settings.document_prefix, texts)
        async with self._batch_lanes:
            return np.concatenate([await self._ask(part) for part in requests_within(sent, self.limits)])

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector `(dimension,)`, using a separate connection and share of the limits.

        Raises:
            ProviderFailed, SpendCapReached: as for `embed`.
        """
        self._http.require_open()
        require_unicode([text])
        vectors = await self._ask(_with_prefix(self._settings.query_prefix, [text]), is_question=True)
        row: Vectors = vectors[0]
        return row

    async def aclose(self) -> None:
        """Close the connections and refuse every later call; idempotent."""
        await self._http.aclose()

    async def _ask(self, texts: Sequence[str], *, is_question: bool = False) -> Vectors:
        tokens = sum(estimate_tokens(len(text.encode())) for text in texts)
        async with yield_admission():
            await (self._rates.questions if is_question else self._rates.documents).acquire(tokens)
            with self._spending.call(tokens) as charge:
                reply = await self._http.post(
                    self._wire_format.path,
                    self._wire_format.body(texts, is_question=is_question),
                    texts=texts,
                    max_bytes=min(_MAX_REPLY_BYTES, _REPLY_BYTES + _REPLY_BYTES_PER_TEXT * len(texts)),
                    when_unbilled=charge.void,
                )
                charge.tokens = self._wire_format.tokens(reply) or tokens
        vectors = check_reply(
            self._wire_format.vectors(reply),
            count=len(texts),
            dimension=self.dimension,
            is_learned=not self._settings.dimensions,
        )
        self.dimension = vectors.shape[1]
        return vectors


def _with_prefix(prefix: str, texts: Sequence[str]) -> list[str]:
    """Prefix the texts. Most services refuse an empty text, so a space replaces it."""
    return [prefix + text or " " for text in texts]
