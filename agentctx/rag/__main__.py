"""Write the packaged calibration of the embedded model: `make calibration`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentctx.config.embedding import EmbeddingSettings
from agentctx.embedding_providers.embedded.provider import EmbeddedProvider
from agentctx.embedding_providers.registry import create_provider
from agentctx.rag.calibration import calibrate, calibration_texts
from agentctx.rag.calibrator import PACKAGED, calibration_key, packed


async def _main() -> None:
    provider = create_provider(EmbeddingSettings())
    assert isinstance(provider, EmbeddedProvider)  # noqa: S101 - the default of the settings
    texts = calibration_texts()
    try:
        made = await calibrate(provider, texts)
    finally:
        await provider.aclose()
    assert made is not None  # noqa: S101 - the reference model
    (Path(__file__).parent / PACKAGED).write_bytes(packed(calibration_key(provider, texts), made))


if __name__ == "__main__":
    asyncio.run(_main())
