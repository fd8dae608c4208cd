"""`CohereReranker`: Cohere's rerank API through its own package, imported only here and only on use."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from agentctx.config.extras import install_hint
from agentctx.config.outgoing import open_client, tls_problem
from agentctx.embedding.fair_queue import yield_admission
from agentctx.embedding.providers.remote.refusals import requested_pause_s
from agentctx.embedding.rerankers.base import best_first, result_count
from agentctx.errors import ConfigInvalid, Disposition, ProviderFailed
from agentctx.text.chunking.base import PositionAwareChunk

DEFAULT_MODEL = "rerank-v4.0-pro"
MAX_DOCUMENTS = 1000
"""Documents per request; more are sent in several requests. A score depends only on its own document."""
KEY_VARIABLES = ("CO_API_KEY", "COHERE_API_KEY")
"""Where Cohere's package looks for the key."""
_URL = "https://api.cohere.com"
_TIMEOUT_S = 300.0
"""As in the package's own client."""
_REFUSALS = {
    400: "Check the model's limits.",
    401: "Check the API key: rerank.api_key, or CO_API_KEY.",
    403: "Check the permissions of the API key.",
    404: "Check the model name and the address.",
    429: "Send fewer requests or fewer candidates; trial keys allow few calls per minute.",
}


class RerankClient(Protocol):
    """The part of a client in use: `rerank` of `cohere.AsyncClientV2`, `cohere.ClientV2` or similar."""

    @property
    def rerank(self) -> Any: ...


class CohereReranker:
    """Orders chunks by Cohere's relevance scores. Questions and chunks leave this machine.

    Args:
        client: a client of Cohere's package, asynchronous or not; the caller has to close it.
        model: default `rerank-v4.0-pro`.
    """

    def __init__(self, client: RerankClient, *, model: str = DEFAULT_MODEL) -> None:
        self._client = client
        self._owned: Any = None
        self._closed = False
        self._problem: ConfigInvalid | None = None
        """Why this environment allows no client."""
        self.model = model

    @classmethod
    async def create(
        cls,
        model: str = DEFAULT_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_retries: int | None = None,
    ) -> CohereReranker:
        """Create a reranker with its own client.

        The key defaults to CO_API_KEY and the address to CO_API_URL. `max_retries` of a failed request
        defaults to the package's own number.

        Raises:
            ConfigInvalid: the package is not installed, or the key is missing.
        """
        package = await asyncio.to_thread(_import_cohere)
        if api_key is None and not any(os.environ.get(name) for name in KEY_VARIABLES):
            raise ConfigInvalid(
                "Cohere's reranker needs an API key.",
                hint="Set rerank.api_key or the environment variable CO_API_KEY.",
            )
        # The package's own client would follow redirects anywhere, with the question and the chunks.
        address = base_url or os.environ.get("CO_API_URL") or _URL
        try:
            http = open_client(address, use_environment_proxies=False, timeout=_TIMEOUT_S)
        except ConfigInvalid as error:
            unreachable = cls(cast("RerankClient", None), model=model)
            unreachable._problem = error
            return unreachable
        given = {
            "api_key": api_key,
            "base_url": base_url,
            "max_retries": max_retries,
            "httpx_client": http,
        }
        # An explicit None for the address would override CO_API_URL.
        client = package.AsyncClientV2(**{name: value for name, value in given.items() if value is not None})
        reranker = cls(client, model=model)
        reranker._owned = client
        return reranker

    @property
    def name(self) -> str:
        return f"cohere/{self.model}"

    async def rerank(
        self, query: str, chunks: Sequence[PositionAwareChunk], top_k: int | None = None
    ) -> list[PositionAwareChunk]:
        """Return at most `top_k` of the chunks by descending relevance score; see `Reranker`.

        Raises:
            InvalidInput: `top_k` is negative.
            ProviderFailed: Cohere refused (stop), was busy (later) or unavailable (retry), or its reply does
                not score every chunk exactly once.
        """
        count = result_count(len(chunks), top_k)
        if not count:
            return []
        if self._closed:
            raise ProviderFailed("The Cohere reranker is closed.", hint="Create a new one.")
        if self._problem is not None:
            raise ProviderFailed(self._problem.message, disposition=Disposition.STOP, hint=self._problem.hint)
        scores: list[float] = []
        for start in range(0, len(chunks), MAX_DOCUMENTS):
            scores += await self._scores(query, [chunk.content for chunk in chunks[start:][:MAX_DOCUMENTS]])
        return best_first(chunks, scores, count)

    async def aclose(self) -> None:
        """Close the client if `create` made it; idempotent."""
        owned, self._owned = self._owned, None
        if owned is not None:
            self._closed = True
            await owned.__aexit__(None, None, None)

    async def _scores(self, query: str, documents: list[str]) -> list[float]:
        # Requests all scores, without `top_n`, so that Cohere does not choose which of two equal ones to
        # drop.
        try:
            async with yield_admission():
                reply = await self._call(model=self.model, query=query, documents=documents)
            results = [(item.index, float(item.relevance_score)) for item in reply.results]
        except Exception as error:  # a client passed in may raise anything
            raise _failure(error) from error
        return scores_in_order(results, len(documents))

    async def _call(self, **arguments: Any) -> Any:
        rerank = self._client.rerank
        if inspect.iscoroutinefunction(rerank):
            return await rerank(**arguments)
        reply = await asyncio.to_thread(rerank, **arguments)
        # A decorated asynchronous client looks synchronous.
        return await reply if inspect.isawaitable(reply) else reply


def scores_in_order(results: Iterable[tuple[int, float]], count: int) -> list[float]:
    """Sort a reply's pairs of index and score by index, and return the scores.

    Raises:
        ProviderFailed: an index below `count` does not have exactly one score.
    """
    pairs = list(results)
    if sorted(index for index, _ in pairs) != list(range(count)):
        raise ProviderFailed(f"Cohere's reply does not score each of the {count} chunks exactly once.")
    return [score for _, score in sorted(pairs)]


def _import_cohere() -> Any:
    try:
        return import_module("cohere")
    except ImportError as error:
        raise ConfigInvalid(
            f"Cohere's reranker needs the package cohere, which cannot be imported: {error}",
            hint=install_hint("cohere"),
        ) from error


def _failure(error: Exception) -> ProviderFailed:
    """Convert a client's error to ours, without its text, which may quote the question or the headers."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        if reason := tls_problem(error):
            return ProviderFailed(f"Cohere cannot be reached: {reason}.")
        return ProviderFailed(f"The request to Cohere failed: {type(error).__name__}.")
    sent = getattr(error, "headers", None)
    items = sent.items() if isinstance(sent, Mapping) else ()
    headers = {str(name).lower(): str(value) for name, value in items}
    return ProviderFailed(
        f"Cohere answered with HTTP status {status}.",
        disposition=_disposition(status),
        retry_after_s=requested_pause_s(status, headers, None, time.time()),
        hint=_REFUSALS.get(status, "See Cohere's status page."),
    )


def _disposition(status: int) -> Disposition:
    if status == 429:
        return Disposition.LATER
    return Disposition.STOP if 400 <= status < 500 and status not in {408, 409} else Disposition.RETRY
