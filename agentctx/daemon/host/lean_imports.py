"""Imports libraries without the optional packages that the daemon does not need."""

from __future__ import annotations

import sys


def import_structlog() -> None:
    """Import structlog without rich, which only its formatted tracebacks need; saves 5 MB."""
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None marks what must not be found
    import structlog  # noqa: F401 - imported here first, so that later imports reuse it

    if sys.modules.get("rich") is None:
        del sys.modules["rich"]
