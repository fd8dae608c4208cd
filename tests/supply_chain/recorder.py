"""docs/record_dependencies.py as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

_PATH = Path(__file__).parents[2] / "docs" / "record_dependencies.py"


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("record_dependencies", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


recorder = _loaded()
