"""Vectors of texts embedded in earlier runs, one file per model under `results/`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.storage.chunk_texts import text_hash
from agentctx.storage.vectors import Vectors

RESULTS = Path(__file__).parent / "results"
_AT_ONCE = 64


class CachedEmbedder:
    """Takes the vector of each text from the file, or else from the provider. `save` stores the new ones."""

    def __init__(self, provider: EmbeddingProvider, folder: Path = RESULTS) -> None:
        digest = sha256(repr(sorted(provider.fingerprint.items())).encode()).hexdigest()[:16]
        self._path = folder / f"vectors-{digest}.npz"
        self.provider = provider
        self._vectors = _load(self._path)
        self._is_changed = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return vectors `(len(texts), dimension)` for at least one text."""
        missing = [text for text in dict.fromkeys(texts) if text_hash(text) not in self._vectors]
        for start in range(0, len(missing), _AT_ONCE):
            batch = missing[start : start + _AT_ONCE]
            found = await self.provider.embed(batch)
            self._vectors.update(zip(map(text_hash, batch), found, strict=True))
            self._is_changed = True
        return np.stack([self._vectors[text_hash(text)] for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector `(dimension,)`."""
        vector: Vectors = (await self.embed([text]))[0]
        return vector

    def save(self) -> None:
        """Write the file if there are new vectors. An interrupted run leaves the old file intact."""
        if not self._is_changed:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        keys = np.frombuffer(b"".join(self._vectors), dtype=np.uint8).reshape(len(self._vectors), -1)
        partial = self._path.with_suffix(".part.npz")
        np.savez(partial, keys=keys, vectors=np.stack(list(self._vectors.values())))
        partial.replace(self._path)
        self._is_changed = False


def _load(path: Path) -> dict[bytes, Vectors]:
    if not path.is_file():
        return {}
    with np.load(path) as stored:
        keys, vectors = stored["keys"], stored["vectors"].astype(np.float32, copy=False)
    return {key.tobytes(): vector for key, vector in zip(keys, vectors, strict=True)}
