"""docs/record_http_reference.py as a module."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PATH = Path(__file__).parents[2] / "docs" / "record_http_reference.py"


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("record_http_reference", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_MODULE = _loaded()
document: Callable[[], dict[str, Any]] = _MODULE.document
reference: Callable[[Mapping[str, Any]], str] = _MODULE.reference
