"""Keeps packages out of the daemon that a library imports only because they are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Make these modules look uninstalled. Modules imported before stay."""
    absent = [name for name in names if name not in sys.modules]
    # None is the import system's own mark of a module that must not be found.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def import_structlog() -> None:
    """Import structlog without rich, which it would use for tracebacks: ours are plain. Saves 5 MB."""
    with hidden("rich"):
        import structlog  # noqa: F401 - imported here so that it is found imported everywhere else
