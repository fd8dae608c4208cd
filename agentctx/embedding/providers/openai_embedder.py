"""The spec's embedder over OpenAI's package: `await OpenAIEmbedder.create()`, or with a client of your own.

For use in programs; the daemon's `openai` provider does not use that package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from time import time
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from agentctx.config.extras import install_hint
from agentctx.embedding.fair_queue import yield_admission
from agentctx.embedding.providers.base import (
    ProviderLimits,
    check_reply,
    requests_within,
    require_unicode,
)
from agentctx.embedding.providers.remote.refusals import requested_pause_s
from agentctx.errors import ConfigInvalid, Disposition, InvalidInput, ProviderFailed
from agentctx.storage.vectors import Vectors

if TYPE_CHECKING:
    from openai import AsyncOpenAI

DEFAULT_MODEL: Final = "text-embedding-3-small"
LIMITS: Final = ProviderLimits(max_inputs=2_048, max_tokens=300_000)

_DIMENSIONS: Final = {
    "text-embedding-3-small": 1_536,
    "text-embedding-3-large": 3_072,
    "text-embedding-ada-002": 1_536,
}
_BLANK: Final = " "
"""Sent for an empty text, which the API refuses."""


class OpenAIEmbedder:
    """Embeds texts with the embeddings API; vectors have unit length.

    Args:
        client: an `openai.AsyncOpenAI`, which sets credentials, address, timeout and retries and stays open;
            None creates one from the environment (`OPENAI_API_KEY`, `OPENAI_BASE_URL`).
        model: the embedding model.
        dimensions: length of the vectors, for models that can shorten them; None keeps the model's own.

    Raises:
        ConfigInvalid: the package `openai` is not installed, or there is neither a client nor a key.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        model: str = DEFAULT_MODEL,
        dimensions: int | None = None,
    ) -> None:
        if dimensions is not None and dimensions < 1:
            raise InvalidInput(f"Invalid dimensions {dimensions}. Use a positive number.")
        self._openai = _import_openai()
        self._owns_client = client is None
        self._client = self._from_environment() if client is None else client
        self._model = model
        self._asked_dimensions = dimensions
        self.name = f"openai {model}"
        self.dimension = dimensions or _DIMENSIONS.get(model, 0)
        """Length of the vectors; 0 for an unknown model until its first reply."""
        self._is_closed = False

    @classmethod
    async def create(cls, model: str = DEFAULT_MODEL, dimensions: int | None = None) -> Self:
        """Return an embedder with a new client that takes its credentials from the environment.

        Raises:
            ConfigInvalid: the package `openai` is not installed, or the environment has no key.
        """
        # The import takes half a second.
        await asyncio.to_thread(_import_openai)
        return cls(None, model, dimensions)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, `(len(texts), dimension)`, in order; long lists take several requests.

        Raises:
            ProviderFailed: a request failed, or the reply does not hold one usable vector per text.
        """
        if self._is_closed:
            raise ProviderFailed("The OpenAI embedder is closed.", hint="Create a new embedder.")
        require_unicode(texts)
        parts = [await self._request(batch) for batch in requests_within(texts, LIMITS)]
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector `(dimension,)`, equal to `embed([text])[0]`. Raises `ProviderFailed`."""
        row: Vectors = (await self.embed([text]))[0]
        return row

    async def aclose(self) -> None:
        """Close the client if this embedder created it. Idempotent."""
        self._is_closed = True
        if self._owns_client:
            await self._client.close()

    async def _request(self, texts: Sequence[str]) -> Vectors:
        options: dict[str, Any] = {}
        if self._asked_dimensions is not None:
            options["dimensions"] = self._asked_dimensions
        try:
            async with yield_admission():
                reply = await self._client.embeddings.create(
                    model=self._model, input=[text or _BLANK for text in texts], **options
                )
        except self._openai.OpenAIError as error:
            # Neither the message nor the cause is kept: both can contain the key or a text.
            raise _failure(error, self._openai, len(texts)) from None
        except (ValueError, TypeError, AttributeError):
            raise ProviderFailed("OpenAI's reply is not a list of embeddings.") from None
        vectors = check_reply(_rows(reply, len(texts)), count=len(texts), dimension=self.dimension)
        self.dimension = vectors.shape[1]
        return vectors

    def _from_environment(self) -> AsyncOpenAI:
        try:
            # The package's default client follows redirects to any host.
            http = self._openai.DefaultAsyncHttpxClient(follow_redirects=False)
            client: AsyncOpenAI = self._openai.AsyncOpenAI(http_client=http)
        except self._openai.OpenAIError as error:
            raise ConfigInvalid("OpenAI's client has no credentials.", hint="Set OPENAI_API_KEY.") from error
        return client


def _import_openai() -> ModuleType:
    try:
        return import_module("openai")
    except ImportError as error:
        raise ConfigInvalid(
            "OpenAIEmbedder needs the package openai.", hint=install_hint("openai")
        ) from error


def _rows(reply: Any, count: int) -> Vectors:
    """Return the vectors of a reply, ordered by index."""
    try:
        items = sorted(reply.data, key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)):
            raise ProviderFailed(
                f"The reply does not have exactly one embedding for each of the {count} texts."
            )
        rows = np.asarray([item.embedding for item in items], dtype=np.float32)
    except (AttributeError, TypeError, ValueError):
        raise ProviderFailed("OpenAI's reply is not a list of embeddings.") from None
    if rows.ndim != 2 or not rows.size:
        raise ProviderFailed("OpenAI's reply has embeddings that are not numbers.")
    return rows


def _failure(error: Any, openai: ModuleType, count: int) -> ProviderFailed:
    if isinstance(error, openai.APITimeoutError):
        return ProviderFailed("OpenAI did not answer in time.")
    if isinstance(error, openai.APIStatusError):
        return _refusal(error.status_code, error.code, error.response.headers, count)
    if isinstance(error, openai.APIConnectionError):
        return ProviderFailed("OpenAI cannot be reached.")
    return ProviderFailed(f"OpenAI's client failed with {type(error).__name__}.")


def _refusal(status: int, code: str | None, headers: Any, count: int) -> ProviderFailed:
    message = f"OpenAI answered with status {status}."
    if status in {401, 403, 404} or code == "insufficient_quota":
        return ProviderFailed(
            message,
            disposition=Disposition.STOP,
            hint="Check the key, the model, the address and the account's credit.",
        )
    if status in {400, 413, 422}:
        return ProviderFailed(message, disposition=Disposition.SPLIT if count > 1 else Disposition.BURY)
    pause_s = requested_pause_s(status, dict(headers), None, time())
    if status == 429 or pause_s is not None:
        return ProviderFailed(message, disposition=Disposition.LATER, retry_after_s=pause_s)
    return ProviderFailed(message)
