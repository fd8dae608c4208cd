"""Create the configured reranker. The only module that names implementations, which it imports on use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from agentctx.config.embedding import RerankSettings
from agentctx.embedding.rerankers.base import ClosableReranker
from agentctx.errors import ConfigInvalid, UnknownProvider

NONE = "none"


async def create_reranker(settings: RerankSettings) -> ClosableReranker | None:
    """Create the configured reranker, or return `None` for `none`: answers then keep their fused order.

    Raises:
        UnknownProvider: no reranker has this id; the message lists the known ones.
        ConfigInvalid: the settings do not suit the reranker, or its package is not installed.
    """
    if settings.provider == NONE:
        return None
    create = _RERANKERS.get(settings.provider)
    if create is None:
        raise UnknownProvider(
            f"Unknown reranker {settings.provider!r}. Available: {', '.join(known_rerankers())}.",
            hint="Set rerank.provider to one of these.",
        )
    return await create(settings)


def is_remote(provider: str) -> bool:
    """Return whether texts leave this machine."""
    return provider == "cohere"


def known_rerankers() -> tuple[str, ...]:
    """Return every valid value of `rerank.provider`, the default first."""
    return (NONE, *_RERANKERS)


async def _cohere(settings: RerankSettings) -> ClosableReranker:
    from agentctx.embedding.rerankers.cohere import DEFAULT_MODEL, CohereReranker

    return await CohereReranker.create(
        settings.model or DEFAULT_MODEL,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        base_url=settings.base_url or None,
        # The package waits a second or more before a retry: the deadline would be exceeded, and the answer
        # would report that instead of the actual error.
        max_retries=0,
    )


async def _cross_encoder(settings: RerankSettings) -> ClosableReranker:
    from agentctx.embedding.rerankers.cross_encoder import CrossEncoderReranker

    if not settings.model:
        raise ConfigInvalid(
            "rerank.model is empty.",
            hint="Set it to the folder with the cross-encoder's model.onnx and tokenizer.json.",
        )
    return CrossEncoderReranker(Path(settings.model))


_RERANKERS: dict[str, Callable[[RerankSettings], Awaitable[ClosableReranker]]] = {
    "cohere": _cohere,
    "cross-encoder": _cross_encoder,
}
