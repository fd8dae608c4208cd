"""The embedded model's word embeddings, read from its ONNX file without loading the model. No other I/O.

An ONNX file is a protobuf message: onnx.proto of the ONNX project has the numbers of its fields.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from agentctx.errors import Disposition, ProviderFailed
from agentctx.storage.vectors import Vectors

WIDTH: Final = 384
_NAME: Final = "word_embeddings.weight_"
_GRAPH, _INITIALIZER = 7, 5
"""Fields of a model, and of its graph."""
_FLOATS, _INTEGERS, _TENSOR_NAME, _RAW = 4, 5, 8, 9
"""Fields of a tensor: its values in one of three forms, and its name."""
_VARINT, _BYTES = 0, 2
_FIXED_LENGTH: Final = {1: 8, 5: 4}
"""The length of a number by its wire type."""


@dataclass(frozen=True, slots=True)
class WordTable:
    """A table `(words, WIDTH)`, mapped from the file; an embedding is `(stored - zero_point) * scale`."""

    stored: npt.NDArray[np.uint8]
    scale: float
    zero_point: int

    def embeddings(self, ids: Sequence[int]) -> Vectors:
        """Return the embeddings of tokens, `(1, tokens, WIDTH)`."""
        centred = self.stored[list(ids)].astype(np.float32) - self.zero_point
        return np.asarray(centred[None] * self.scale, dtype=np.float32)


def read_word_table(model: Path) -> WordTable:
    """Map the table of a built all-MiniLM-L6-v2.

    Raises:
        ProviderFailed: the file has no such table (stop).
    """
    try:
        with model.open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        parts = dict(_parts(mapped))
        return WordTable(
            np.frombuffer(parts["quantized"][_RAW], np.uint8).reshape(-1, WIDTH),
            scale=float(np.frombuffer(parts["scale"][_FLOATS], "<f4")[0]),
            zero_point=_varint(parts["zero_point"][_INTEGERS], 0)[0],
        )
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise ProviderFailed(
            f"{model} has no word embeddings that the judge can read.", disposition=Disposition.STOP
        ) from error


def _parts(model: memoryview) -> Iterator[tuple[str, dict[int, memoryview]]]:
    for graph in (value for number, value in _fields(model) if number == _GRAPH):
        for tensor in (dict(_fields(value)) for number, value in _fields(graph) if number == _INITIALIZER):
            _, found, part = bytes(tensor.get(_TENSOR_NAME, b"")).decode().partition(_NAME)
            if found:
                yield part, tensor


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the number and content of each field of bytes, skipping the numbers."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _BYTES:
            length, at = _varint(message, at)
            yield number, message[at : at + length]
            at += length
        else:
            at += _FIXED_LENGTH[kind]


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number that starts at a place, and the place after it."""
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
        if message[at - 1] < 0x80:
            return value, at
