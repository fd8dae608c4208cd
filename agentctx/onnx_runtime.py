"""Lazy import of onnxruntime, without its telemetry."""

from __future__ import annotations

import os
from typing import Any


def onnxruntime() -> Any:
    """Import and return the module.

    Its telemetry writes a file in the user's cache folder and contacts its vendor's servers; the variable
    that disables it takes effect only if set before the import.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime as module

    return module
