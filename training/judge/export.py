"""Write the judge as the two int8 graphs that the daemon ships: one for a text, one for a pair."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn

from training.judge.base import WIDTH
from training.judge.model import Judge, Lower

OPSET = 17
FILES = {"lower": "text.onnx", "upper": "pair.onnx"}


def export(lower: Lower, judge: Judge, folder: Path) -> None:
    """Write both graphs to the folder, with their checksums."""
    words = torch.zeros(1, 5, WIDTH)
    _write(lower, (words,), ["words"], "states", folder / FILES["lower"])
    segment = torch.tensor([[0, 0, 1, 1, 1]])
    _write(judge, (words, segment), ["states", "segment"], "score", folder / FILES["upper"])
    sums = (
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in FILES.values()
    )
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def _write(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], names: list[str], output: str, path: Path
) -> None:
    axes = {name: {1: "tokens"} for name in names}
    if output == "states":
        axes[output] = {1: "tokens"}
    with tempfile.TemporaryDirectory() as work:
        whole = Path(work, "whole.onnx")
        torch.onnx.export(
            module.eval(),
            inputs,
            str(whole),
            input_names=names,
            output_names=[output],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )
        # 7-bit weights, as the embedded model has: without VNNI, products of 8 bits overflow their sums.
        quantize_dynamic(whole, path, per_channel=True, weight_type=QuantType.QInt8, reduce_range=True)
