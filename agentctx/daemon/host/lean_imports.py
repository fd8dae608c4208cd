"""Imports libraries without the optional packages that the daemon does not need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hide_modules(*names: str) -> Iterator[None]:
    """Make these modules appear uninstalled. Modules already imported stay available."""
    absent = [name for name in names if name not in sys.modules]
    # In sys.modules, None marks a module that must not be found.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def import_structlog() -> None:
    """Import structlog without rich, which only its formatted tracebacks need; saves 5 MB."""
    with hide_modules("rich"):
        import structlog  # noqa: F401 - imported here first, so that later imports reuse it
