"""Reads the file of 4-bit weights: a header, the vocabulary, the normalization, a directory, the tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agentctx.storage.vectors import Vectors

BLOCK: Final = 32
"""Weights that share a scale."""
_BLOCKS: Final = np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)])
"""Byte i has weight i in its lower half and weight i + 16 in its upper half, each plus 8."""
_HEADER_BYTES: Final = 44
"""Magic number, version and the sizes of the model, which the pinned checksum fixes."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A matrix of 4-bit weights, `(rows, columns)`; a weight is `(nibble - 8) * scale`."""

    scales: NDArray[np.float16]
    """`(rows, columns / BLOCK)`."""
    nibbles: NDArray[np.uint8]
    """`(rows, columns / BLOCK, BLOCK / 2)`."""

    def weights(self) -> Vectors:
        """Return the weights as float32, `(rows, columns)`."""
        halves = np.concatenate([self.nibbles & 15, self.nibbles >> 4], axis=-1)
        weights = (halves.astype(np.float32) - 8) * self.scales[..., None].astype(np.float32)
        return np.asarray(weights.reshape(len(weights), -1))


class WeightsFile:
    """The contents of the file. Its checksum must have been verified: malformed contents are not detected."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self._at = _HEADER_BYTES
        count, *_, text_bytes = self._take("<5iQ")
        ends = np.frombuffer(self._bytes(4 * (count + 1)), "<u4").tolist()
        self.scores: list[float] = np.frombuffer(self._bytes(4 * count), "<f4").tolist()
        """The log probability of each piece."""
        text = self._bytes(text_bytes)
        self.pieces = [text[start:end].decode() for start, end in pairwise(ends)]
        """The vocabulary, by token id."""
        self.normalization = self._read_normalization()
        """What each character is replaced with; others stay."""
        self._directory = self._read_directory()

    def floats(self, name: str) -> Vectors:
        """Return a float32 tensor, `(count,)`."""
        count, offset = self._directory[name]
        return np.frombuffer(self._data, "<f4", count, offset)

    def blocks(self, name: str, columns: int) -> Blocks:
        """Return a matrix with rows of `columns` weights."""
        count, offset = self._directory[name]
        blocks = np.frombuffer(self._data, _BLOCKS, count // BLOCK, offset).reshape(-1, columns // BLOCK)
        return Blocks(blocks["scale"], blocks["nibbles"])

    def _read_normalization(self) -> dict[str, str]:
        count, _ = self._take("<iI")
        replaced = {}
        for _ in range(count):
            code, length = self._take("<IB")
            replaced[chr(code)] = "".join(map(chr, self._take(f"<{length}I")))
        return replaced

    def _read_directory(self) -> dict[str, tuple[int, int]]:
        """Return the number of weights and the offset of each tensor."""
        (count,) = self._take("<i")
        tensors = {}
        for _ in range(count):
            (length,) = self._take("<H")
            name = self._bytes(length).decode()
            _, weights, offset, _ = self._take("<BIQQ")
            tensors[name] = (weights, offset)
        return tensors

    def _take(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))

    def _bytes(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        return self._data[start : self._at]
