"""Calibrate relevance for a model: background vectors, and the scale of its similarities.

Models express the same closeness in different numbers: unrelated texts have a cosine of .0 in one model and
of .7 in another. The package contains memories and prompts that are embedded once; the similarities of
matching and non-matching pairs are then mapped to those of the reference model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple, TypeAlias

import numpy as np

from agentctx.embedding.providers.base import EmbeddingProvider, embed_questions
from agentctx.service.rag.relevance import Calibration, Scale
from agentctx.storage.vectors import Vectors

REFERENCE_ALIKE, REFERENCE_UNLIKE = 0.511, 0.058
"""Mean similarity, in the reference model, of a memory to its own prompts and to those of others."""
Rows: TypeAlias = dict[int, Vectors | None]
"""The vector of each text by its index in `CalibrationTexts.all`; None if the model cannot embed it."""
MIN_SPREAD = 0.02
"""A model whose two mean similarities differ by less than this cannot tell texts apart."""


class CalibrationTexts(NamedTuple):
    """Background texts that answer no question, and memories with two prompts each that call for them."""

    background: tuple[str, ...]
    memories: tuple[str, ...]
    prompts: tuple[tuple[str, str], ...]

    @property
    def total(self) -> int:
        """The number of texts that a calibration embeds."""
        return len(self.all)

    @property
    def all(self) -> tuple[str, ...]:
        """All texts in the order in which they are embedded; questions are those of `questions`."""
        asked, needed = (tuple(side) for side in zip(*self.prompts, strict=True))
        return (*self.memories, *asked, *needed, *self.background)

    @property
    def questions(self) -> range:
        return range(len(self.memories), 3 * len(self.memories))


def calibration_texts() -> CalibrationTexts:
    """Read the texts shipped with the package."""
    rows = [line.split("\t") for line in _lines("calibration.tsv")]
    return CalibrationTexts(
        tuple(_lines("background.txt")),
        tuple(memory for memory, _, _ in rows),
        tuple((asked, needed) for _, asked, needed in rows),
    )


def next_part(texts: CalibrationTexts, done: Mapping[int, object], size: int) -> list[int]:
    """Return which texts to embed next, at most `size`: only questions, or none."""
    left = [at for at in range(texts.total) if at not in done]
    kind = [at for at in left if (at in texts.questions) == (left[0] in texts.questions)]
    return kind[:size]


async def embed_part(provider: EmbeddingProvider, texts: CalibrationTexts, part: Sequence[int]) -> Vectors:
    """Embed the texts of a part. Raises the errors of the provider."""
    chosen = [texts.all[at] for at in part]
    return await (embed_questions(provider, chosen) if part[0] in texts.questions else provider.embed(chosen))


def calibration_of(texts: CalibrationTexts, rows: Mapping[int, Vectors | None]) -> Calibration | None:
    """Compute the calibration; None if the model's similarities carry no information.

    At most half of the texts may be missing.
    """
    count = len(texts.memories)
    whole = [at for at in range(count) if all(rows[at + k * count] is not None for k in range(3))]
    background = [row for at in range(3 * count, texts.total) if (row := rows[at]) is not None]
    if 2 * len(whole) < count or 2 * len(background) < len(texts.background):
        return None
    sides = [[row for at in whole if (row := rows[at + k * count]) is not None] for k in range(3)]
    memories, *prompts = map(np.stack, sides)
    scale = scale_of([memories @ side.T for side in prompts])
    return None if scale is None else Calibration(scale, np.stack(background))


def scale_of(similarities: Sequence[Vectors]) -> Scale | None:
    """Compute the scale from cosine matrices `(memories, prompts)` whose diagonals are the matching pairs."""
    alike = float(np.mean([np.diag(each).mean() for each in similarities]))
    unlike = float(np.mean([float(each[~np.eye(len(each), dtype=bool)].mean()) for each in similarities]))
    if alike - unlike < MIN_SPREAD:
        return None
    factor = (REFERENCE_ALIKE - REFERENCE_UNLIKE) / (alike - unlike)
    return Scale(factor, REFERENCE_UNLIKE - factor * unlike)


def _lines(name: str) -> Iterator[str]:
    text = files("agentctx.service.rag").joinpath(name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
