"""Texts with the tokens and vector that the C engine of the weights computed, outside of these tests."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from agentctx.embedding.providers.base import unit_rows
from agentctx.storage.vectors import Vectors


@dataclass(frozen=True, slots=True)
class Reference:
    """A text, its tokens without the special ones, and its vector, which is stored as one byte per number."""

    text: str
    tokens: list[int]
    vector: str

    def unit_vector(self) -> Vectors:
        numbers = np.frombuffer(base64.b64decode(self.vector), np.int8).astype(np.float32)
        row: Vectors = unit_rows(numbers[None, :])[0]
        return row


_LINES: Final = Path(__file__).with_name("reference.jsonl").read_text(encoding="utf-8").splitlines()
REFERENCE: Final = [Reference(**json.loads(line)) for line in _LINES]
