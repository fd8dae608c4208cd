"""Builds the default model: turns its weight-only int8 weights into a dynamic int8 model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentctx.embedding.onnx_runtime import onnxruntime
from agentctx.embedding.providers.embedded.weights import MODEL


def quantize(target: Path) -> None:
    """Write the dynamic int8 model to `target`. Temporary files stay in the folder of `target`.

    Raises:
        ProviderFailed: the source weights are missing or not the pinned ones (stop).
    """
    source = MODEL.verified()
    folded = target.with_name("folded.onnx")
    _fold(source, folded)
    _quantize_dynamic(folded, target)
    folded.unlink()


def _fold(source: Path, folded: Path) -> None:
    """Turn the int8 weights with their scales back into float32 constants."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    # Higher levels write operators that only suit the machine that made them.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    options.log_severity_level = 4
    runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def _quantize_dynamic(folded: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _temporary_files_in(target.parent):
        # Without VNNI, 8-bit products overflow their 16-bit sums; 7-bit weights cannot.
        quantize_dynamic(folded, target, per_channel=True, weight_type=QuantType.QInt8, reduce_range=True)


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Use `folder` for temporary files: the quantizer writes 90 MB, and the default may be a small tmpfs.

    The default is restored because the wheel's build makes temporary files later, when `folder` is gone.
    """
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
