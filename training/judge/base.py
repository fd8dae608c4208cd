"""The embedded model's weights and tokenizer: what the judge starts from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from agentctx.embedding.providers.embedded.tokens import read_wordpiece
from agentctx.embedding.providers.embedded.weights import MODEL, TOKENIZER

LAYERS = 6
WIDTH = 384
HEADS = 12
MATRICES = ("query", "key", "value", "attended", "up", "down")
"""The matrices of a layer, in the order in which the graph multiplies with them."""

Weights = dict[str, NDArray[np.float32]]


def read_weights() -> Weights:
    """Return the embedded model's weights as float32 by their published names, without the common prefix.

    The package stores each matrix as int8 with a scale, and the matrices of the layers without a name: they
    are named by their place in the graph.
    """
    graph = onnx.load(str(MODEL.verified())).graph
    stored = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    weights = {
        name.removeprefix("inner."): value for name, value in stored.items() if value.dtype == np.float32
    }
    for name in [name.removesuffix("_q") for name in stored if name.endswith("_q")]:
        weights[name.removeprefix("inner.")] = (
            stored[f"{name}_q"].astype(np.float32) * stored[f"{name}_scale"]
        )
    for (layer, matrix), name in zip(_places(), _multiplied(graph, weights), strict=True):
        weights[f"layer.{layer}.{matrix}"] = weights[name]
    return weights


def _places() -> Iterator[tuple[int, str]]:
    return ((layer, matrix) for layer in range(LAYERS) for matrix in MATRICES)


def _multiplied(graph: Any, weights: Weights) -> Iterator[str]:
    for node in graph.node:
        if node.op_type in {"MatMul", "Gemm"}:
            yield from (name for name in node.input[:2] if name in weights)


class Tokens:
    """Token ids of a text, without special tokens."""

    def __init__(self) -> None:
        wordpiece = read_wordpiece(TOKENIZER.verified())
        if wordpiece is None:
            raise RuntimeError("the embedded model's tokenizer is no longer a WordPiece")
        self._ids = wordpiece.ids
        self._known: dict[str, list[int]] = {}

    def __call__(self, text: str) -> list[int]:
        if text not in self._known:
            self._known[text] = list(self._ids(text))
        return self._known[text]
