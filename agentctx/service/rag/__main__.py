"""Write the packaged calibration of the embedded model: `make calibration`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding.providers.canary import embed_canary
from agentctx.embedding.providers.embedded.provider import EmbeddedProvider
from agentctx.embedding.providers.registry import create_provider
from agentctx.service.rag.calibration import calibration_texts
from agentctx.service.rag.calibrator import PACKAGED, calibration_key, packed


async def _main() -> None:
    provider = create_provider(EmbeddingSettings())
    assert isinstance(provider, EmbeddedProvider)  # noqa: S101 - the default of the settings
    texts = calibration_texts()
    try:
        canary, vectors = await embed_canary(provider), await provider.embed(texts.all)
    finally:
        await provider.aclose()
    data = packed(calibration_key(provider, texts), canary, dict(enumerate(vectors)))
    (Path(__file__).parent / PACKAGED).write_bytes(data)


if __name__ == "__main__":
    asyncio.run(_main())
