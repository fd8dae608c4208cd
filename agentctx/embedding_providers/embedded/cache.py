"""The built model in the cache: found only when complete, built by one process at a time.

CACHE/models/KEY/model.onnx           the model
CACHE/models/KEY/model.onnx.sha256    its checksum, written last
CACHE/models/KEY/lock                 held while building
CACHE/models/KEY/building-…/          files of a build in progress; left behind only by a killed build
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentctx.embedding_providers.embedded.weights import MODEL, PACKAGED, TOKENIZER, sha256_of
from agentctx.onnx_runtime import onnxruntime

MODEL_NAME = "model.onnx"
SUM_NAME = "model.onnx.sha256"
WORK_PREFIX = "building-"
RECIPE_VERSION = 1
"""Part of the cache key and of the fingerprint: incremented with every change to the recipe's result."""


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


def model_folder(cache: Path) -> Path:
    """Return the folder for the model of these sources and this recipe."""
    return cache / "models" / f"{MODEL.sha256[:16]}-{TOKENIZER.sha256[:16]}-r{RECIPE_VERSION}"


def find_built(cache: Path) -> Path | None:
    """Return the built model from the wheel or the cache if it matches its recorded checksum.

    Writes nothing.
    """
    return _whole(PACKAGED) or _whole(model_folder(cache))


def _whole(folder: Path) -> Path | None:
    model, recorded = folder / MODEL_NAME, folder / SUM_NAME
    if not (model.is_file() and recorded.is_file()):
        return None
    return model if sha256_of(model) == recorded.read_text().strip() else None


def ensure_built(cache: Path, build: Callable[[Path], None] = quantize) -> Path:
    """Return the built model; if it is missing or damaged, call `build(target)` first.

    Waits while another process builds. Raises what `build` raises, and `OSError` when the cache cannot be
    written.
    """
    if found := find_built(cache):
        return found
    folder = model_folder(cache)
    folder.mkdir(parents=True, exist_ok=True)
    with _exclusive(folder / "lock"):
        return find_built(cache) or _build(folder, build)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    # The kernel releases the lock when its process ends, even if it is killed.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path, build: Callable[[Path], None]) -> Path:
    for leftover in folder.glob(f"{WORK_PREFIX}*"):
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=folder) as work:
        built, recorded = Path(work, MODEL_NAME), Path(work, SUM_NAME)
        build(built)
        recorded.write_text(sha256_of(built) + "\n")
        # In this order, a crash leaves at worst a model without its checksum, which is not found.
        built.replace(folder / MODEL_NAME)
        recorded.replace(folder / SUM_NAME)
    return folder / MODEL_NAME
