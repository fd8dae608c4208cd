"""A real ONNX sentence model and tokenizer with a few words, generated for a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

WORDS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "a", "cat", "dog", "mat", "the", "sat", "on", "ran"]
DIMENSION = 6
TABLE = np.random.default_rng(7).standard_normal((len(WORDS), DIMENSION)).astype(np.float32)


def write_tokenizer(path: Path) -> None:
    """Write a tokenizer with one token per word between [CLS] and [SEP], which truncates and pads."""
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(["[CLS]", "[SEP]", "[PAD]"])
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_id=3)
    tokenizer.save(str(path))


def write_model(
    path: Path,
    *,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    pooled: bool = False,
    integers: int = TensorProto.INT64,
) -> None:
    """Write a model that returns each token's row of TABLE, or with `pooled` only their mean."""
    nodes = [helper.make_node("Gather", ["table", inputs[0]], ["last_hidden_state"])]
    shape: list[str | int] = ["batch", "tokens", DIMENSION]
    if pooled:
        axes = numpy_helper.from_array(np.array([1]), "axes")
        nodes.append(
            helper.make_node("ReduceMean", ["last_hidden_state", "axes"], ["sentence_embedding"], keepdims=0)
        )
        shape = ["batch", DIMENSION]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, integers, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(TABLE, "table"), *([axes] if pooled else [])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(path))


def write_tiny(folder: Path) -> Path:
    """Write a model folder for `embedding.model`."""
    write_model(folder / "model.onnx")
    write_tokenizer(folder / "tokenizer.json")
    return folder
