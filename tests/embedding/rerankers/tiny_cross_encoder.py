"""A real ONNX cross-encoder and tokenizer of a few words: its logit counts the words both sides share."""

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
CONTENT = {"cat", "mat"}
"""The words that count."""


def write_tokenizer(path: Path, window: int | None) -> None:
    """Return the tokenizer as published: it pads, and truncates at `window` if there is one."""
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(["[CLS]", "[SEP]", "[PAD]"])
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    if window:
        tokenizer.enable_truncation(window)
    tokenizer.enable_padding(length=64, pad_id=3)
    tokenizer.save(str(path))


def write_model(path: Path, *, types: bool = True, logits: int = 1) -> None:
    """Counts content words of the passage (token type 1), or, without `types`, of the whole pair.

    With two logits they are (-count, 0) turned so that the second leads by the count: (0 - count, 0).
    """
    counted = np.array([float(word in CONTENT) for word in WORDS], np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["worth"])]
    last = "worth"
    if types:
        nodes.append(helper.make_node("Cast", ["token_type_ids"], ["side"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Mul", ["worth", "side"], ["counted"]))
        last = "counted"
    nodes.append(helper.make_node("ReduceSum", [last, "axes"], ["sum"], keepdims=1))
    nodes.append(helper.make_node("MatMul", ["sum", "out"], ["logits"]))
    out = np.ones((1, 1)) if logits == 1 else np.eye(1, logits) * -1
    inputs = ("input_ids", "attention_mask", *(("token_type_ids",) if types else ()))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", logits])],
        [
            numpy_helper.from_array(counted, "table"),
            numpy_helper.from_array(np.array([1]), "axes"),
            numpy_helper.from_array(out.astype(np.float32), "out"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(path))


def write_tiny(folder: Path, *, types: bool = True, logits: int = 1, window: int | None = None) -> Path:
    """Write a folder that `rerank.model` can name."""
    folder.mkdir(exist_ok=True)
    write_model(folder / "model.onnx", types=types, logits=logits)
    write_tokenizer(folder / "tokenizer.json", window)
    return folder
