"""The scripts of docs/ that write generated pages, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).parents[1] / "docs"


def docs_script(name: str) -> Any:
    """Return the script `docs/NAME.py` as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
