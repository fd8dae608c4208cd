"""Writes the encoder as an ONNX graph: dynamic int8 products, and a word table that stays on disk in 4 bits.

The table is 54 of the model's 76 MB, and a text needs few of its rows. It is a file of its own, which
onnxruntime maps into memory instead of reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from agentctx.embedding.providers.embedded.multilingual.weights_file import WeightsFile

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

TABLE_NAME: Final = "words.bin"
"""The file with the word table, beside the graph."""
DIMENSION: Final = 384
WINDOW: Final = 512
"""The maximum tokens per run: the model has no more positions."""
_LAYERS, _HEADS, _INNER = 12, 12, 1536
_EPSILON: Final = 1e-12
_RANGE: Final = 63
"""Without VNNI, 8-bit products overflow their 16-bit sums; 7-bit weights cannot."""
_TABLE_BYTES: Final = 1 << 22
"""Larger tensors go into the table's file."""
_CONTRIB: Final = "com.microsoft"


def write_graph(weights: WeightsFile, target: Path) -> None:
    """Write the graph to `target`, and the word table beside it.

    It takes `input_ids`, `(1, tokens)`, and returns `sentence_embedding`, `(1, DIMENSION)`: the mean over the
    tokens, not scaled to unit length.
    """
    import onnx

    onnx.save(
        _Graph(weights).model(),
        str(target),
        save_as_external_data=True,
        location=TABLE_NAME,
        size_threshold=_TABLE_BYTES,
    )


class _Graph:
    """Collects nodes and constants. Methods that add a node return the name of its output."""

    def __init__(self, weights: WeightsFile) -> None:
        self._weights = weights
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}

    def model(self) -> ModelProto:
        from onnx import TensorProto, helper

        embedded = self._node("Add", [self._words(), self._positions()], "embedded")
        state = self._normalized(embedded, "emb.ln")
        for layer in range(_LAYERS):
            state = self._layer(f"l{layer}", state)
        self._node("ReduceMean", [state, self._constant("axis", [1])], "sentence_embedding", keepdims=0)
        takes = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
        returns = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, [1, DIMENSION])
        graph = helper.make_graph(
            self._nodes, "multilingual-e5-small", [takes], [returns], list(self._constants.values())
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _words(self) -> str:
        from onnx import TensorProto

        table = self._weights.blocks("emb.word", DIMENSION)
        rows = self._node("Gather", [self._constant("table", table.nibbles), "input_ids"], "rows")
        scales = self._constant("scales", table.scales[..., None])
        row_scales = self._node("Gather", [scales, "input_ids"], "row_scales")
        lower = self._node("BitwiseAnd", [rows, self._constant("mask", np.uint8(15))], "lower")
        upper = self._node(
            "BitShift", [rows, self._constant("shift", np.uint8(4))], "upper", direction="RIGHT"
        )
        nibbles = self._node("Concat", [lower, upper], "nibbles", axis=-1)
        numbers = self._node("Cast", [nibbles], "numbers", to=TensorProto.FLOAT)
        centred = self._node("Sub", [numbers, self._constant("eight", np.float32(8))], "centred")
        factors = self._node("Cast", [row_scales], "factors", to=TensorProto.FLOAT)
        scaled = self._node("Mul", [centred, factors], "scaled")
        return self._node("Reshape", [scaled, self._constant("shape", [0, 0, DIMENSION])], "words")

    def _positions(self) -> str:
        # Every token has the first of the types.
        positions = self._weights.floats("emb.pos").reshape(WINDOW, DIMENSION)
        typed = positions + self._weights.floats("emb.type")[:DIMENSION]
        count = self._node("Shape", ["input_ids"], "count", start=1, end=2)
        parts = [self._constant("all_positions", typed), self._constant("zero", [0]), count]
        return self._node("Slice", parts, "positions")

    def _layer(self, name: str, state: str) -> str:
        projected = [self._product(state, f"{name}.{part}", DIMENSION) for part in "qkv"]
        context = self._node(
            "MultiHeadAttention", projected, f"{name}.context", domain=_CONTRIB, num_heads=_HEADS
        )
        attended = self._node(
            "Add", [state, self._product(context, f"{name}.ao", DIMENSION)], f"{name}.attended"
        )
        state = self._normalized(attended, f"{name}.aln")
        inner = self._node(
            "Gelu", [self._product(state, f"{name}.fi", DIMENSION)], f"{name}.inner", domain=_CONTRIB
        )
        transformed = self._node(
            "Add", [state, self._product(inner, f"{name}.fo", _INNER)], f"{name}.transformed"
        )
        return self._normalized(transformed, f"{name}.oln")

    def _product(self, state: str, name: str, columns: int) -> str:
        """Multiply by a matrix as int8 with a scale for each row, and add its bias."""
        weights = self._weights.blocks(f"{name}.w", columns).weights()
        scales = np.abs(weights).max(axis=1) / _RANGE
        rounded = np.rint(weights / scales[:, None]).astype(np.int8)
        inputs = [
            state,
            self._constant(f"{name}.w", rounded.T),
            self._constant(f"{name}.scales", scales),
            self._constant(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            self._constant(f"{name}.b", self._weights.floats(f"{name}.b")),
        ]
        return self._node("DynamicQuantizeMatMul", inputs, name, domain=_CONTRIB)

    def _normalized(self, state: str, name: str) -> str:
        factors = [self._constant(f"{name}.{part}", self._weights.floats(f"{name}.{part}")) for part in "wb"]
        return self._node("LayerNormalization", [state, *factors], name, axis=-1, epsilon=_EPSILON)

    def _constant(self, name: str, value: NDArray[Any] | np.generic | list[int]) -> str:
        from onnx import numpy_helper

        self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def _node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output
