"""Lazy import of onnxruntime, without its telemetry, and the sessions of models that answer questions."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentctx.errors import ConfigInvalid

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions


def onnxruntime() -> Any:
    """Import and return the module.

    Its telemetry writes a file in the user's cache folder and contacts its vendor's servers; the variable
    that disables it takes effect only if set before the import.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime as module

    return module


def model_files(path: Path, *, user: str, hint: str) -> tuple[Path, Path]:
    """Return the ONNX file and the tokenizer at `path`, which is a folder or the ONNX file.

    Raises:
        ConfigInvalid: one of the files is missing; the message says that `user` needs it.
    """
    path = path.expanduser()
    model = (path / "model.onnx" if path.is_dir() else path).absolute()
    tokenizer = model.with_name("tokenizer.json")
    for needed in (model, tokenizer):
        if not needed.is_file():
            raise ConfigInvalid(f"{user} needs {needed}, which does not exist.", hint=hint)
    return model, tokenizer


def open_session(model: Path, *, threads: int, hint: str) -> InferenceSession:
    """Load an ONNX file for runs of one text or one pair.

    Raises:
        ConfigInvalid: the file is not a valid ONNX model; `hint` says what to do.
    """
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Otherwise a pattern is kept for every text length ever seen: 30 MB more after 1,000 texts.
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base class
        raise ConfigInvalid(f"{model} cannot be loaded as an ONNX model: {error}", hint=hint) from error
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc's; reading the file took its heap
        trim(0)
    return session


def returning_memory() -> RunOptions:
    """Return options of a run that ends by giving unused memory of the session back to the system."""
    options: RunOptions = onnxruntime().RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options
