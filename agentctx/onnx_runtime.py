"""onnxruntime, imported when it is first needed and without its telemetry."""

from __future__ import annotations

import os
from typing import Any


def onnxruntime() -> Any:
    """The module.

    Its telemetry writes a file in the user's cache folder and asks its maker's servers; the variable that
    switches it off counts only before the import.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime as module

    return module
