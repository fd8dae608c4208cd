"""Optional packages that are imported at their first use."""

from __future__ import annotations

from typing import Any

import pytest


class Late:
    """A package that takes a second to import: every process collects all tests, and few run these."""

    def __init__(self, name: str) -> None:
        self._package = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_mock")):  # asked by pytest, which looks for tests
            raise AttributeError(name)
        return getattr(pytest.importorskip(self._package), name)
