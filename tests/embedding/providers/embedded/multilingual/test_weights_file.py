from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from agentctx.embedding.providers.embedded.multilingual.weights_file import BLOCK, WeightsFile

PIECES = ["<s>", "▁cat", "本"]
NIBBLES = np.arange(2 * 64).reshape(2, 2, BLOCK) % 16
SCALES = np.array([[0.5, 1], [2, 4]], np.float16)


def write_weights(path: Path) -> None:
    """Write a file with three pieces, one rule, a vector of three numbers and a matrix of 2 x 64 weights."""
    text = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, text)]).astype("<u4")
    rule = struct.pack("<IB2I", ord("ﬁ"), 2, ord("f"), ord("i"))
    vector = np.array([1, 2, 3], "<f4").tobytes()
    packed = (NIBBLES[..., :16] | NIBBLES[..., 16:] << 4).astype(np.uint8)
    matrix = b"".join(
        scale.tobytes() + row.tobytes()
        for scale, row in zip(SCALES.reshape(-1), packed.reshape(-1, 16), strict=True)
    )
    head = b"E5S1" + bytes(40) + struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, text)))
    head += ends.tobytes() + np.array([0, -1, -2], "<f4").tobytes() + b"".join(text)
    head += struct.pack("<iI", 1, len(rule)) + rule + struct.pack("<i", 2)
    at = len(head) + 2 * (2 + 1 + 21)
    for name, kind, count, data in ((b"v", 0, 3, vector), (b"m", 1, 128, matrix)):
        head += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, at, len(data))
        at += len(data)
    path.write_bytes(head + vector + matrix)


@pytest.fixture
def weights(tmp_path: Path) -> WeightsFile:
    write_weights(tmp_path / "weights.bin")
    return WeightsFile(tmp_path / "weights.bin")


def test_the_vocabulary_is_read(weights: WeightsFile) -> None:
    assert weights.pieces == PIECES
    assert weights.scores == [0, -1, -2]
    assert weights.normalization == {"ﬁ": "fi"}


def test_tensors_are_found_by_name(weights: WeightsFile) -> None:
    assert weights.floats("v").tolist() == [1, 2, 3]
    expected = (NIBBLES.astype(np.float32) - 8) * SCALES[..., None].astype(np.float32)
    assert np.array_equal(weights.blocks("m", columns=64).weights(), expected.reshape(2, 64))
