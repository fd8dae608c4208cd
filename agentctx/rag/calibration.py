"""Calibrate relevance for a model: background vectors, and the scale of its similarities.

Models express the same closeness in different numbers: unrelated texts have a cosine of .0 in one model and
of .7 in another. The package contains memories and prompts that are embedded once; the similarities of
matching and non-matching pairs are then mapped to those of the reference model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from agentctx.embedding_providers.base import Embedder, Vectors
from agentctx.rag.relevance import Calibration, Scale

REFERENCE_ALIKE, REFERENCE_UNLIKE = 0.511, 0.058
"""Mean similarity, in the reference model, of a memory to its own prompts and to those of others."""
MIN_SPREAD = 0.02
"""A model whose two mean similarities differ by less than this cannot tell texts apart."""
_AT_ONCE = 32


class CalibrationTexts(NamedTuple):
    """Background texts that answer no question, and memories with two prompts each that call for them."""

    background: tuple[str, ...]
    memories: tuple[str, ...]
    prompts: tuple[tuple[str, str], ...]

    @property
    def total(self) -> int:
        """The number of texts that a calibration embeds."""
        return len(self.background) + len(self.memories) + 2 * len(self.prompts)


def calibration_texts() -> CalibrationTexts:
    """Read the texts shipped with the package."""
    rows = [line.split("\t") for line in _lines("calibration.tsv")]
    return CalibrationTexts(
        tuple(_lines("background.txt")),
        tuple(memory for memory, _, _ in rows),
        tuple((asked, needed) for _, asked, needed in rows),
    )


async def calibrate(embedder: Embedder, texts: CalibrationTexts) -> Calibration | None:
    """Embed the texts and compute the calibration; None if the model's similarities carry no information.

    Raises the errors of the embedder.
    """
    memories = await _embedded(embedder, texts.memories)
    prompts = [
        np.stack([await embedder.embed_query(each) for each in side])
        for side in zip(*texts.prompts, strict=True)
    ]
    scale = scale_of([memories @ side.T for side in prompts])
    if scale is None:
        return None
    return Calibration(scale, await _embedded(embedder, texts.background))


def scale_of(similarities: Sequence[Vectors]) -> Scale | None:
    """Compute the scale from cosine matrices `(memories, prompts)` whose diagonals are the matching pairs."""
    alike = float(np.mean([np.diag(each).mean() for each in similarities]))
    unlike = float(np.mean([_off_diagonal(each) for each in similarities]))
    if alike - unlike < MIN_SPREAD:
        return None
    factor = (REFERENCE_ALIKE - REFERENCE_UNLIKE) / (alike - unlike)
    return Scale(factor, REFERENCE_UNLIKE - factor * unlike)


def _off_diagonal(similarities: Vectors) -> float:
    return float(similarities[~np.eye(len(similarities), dtype=bool)].mean())


async def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    parts = [await embedder.embed(texts[at : at + _AT_ONCE]) for at in range(0, len(texts), _AT_ONCE)]
    return np.concatenate(parts)


def _lines(name: str) -> Iterator[str]:
    text = files("agentctx.rag").joinpath(name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
