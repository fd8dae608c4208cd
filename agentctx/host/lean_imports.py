"""Imports libraries without what the daemon does not need: optional packages, models of documents."""

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


def import_fastapi() -> None:
    """Import FastAPI without building the models of OpenAPI, which `/openapi.json` needs; saves 30 ms."""
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True
    try:
        import fastapi  # noqa: F401 - imported here first, so that later imports reuse it
    finally:
        del BaseModel.model_config["defer_build"]


def import_structlog() -> None:
    """Import structlog without rich, which only its formatted tracebacks need; saves 5 MB."""
    with hide_modules("rich"):
        import structlog  # noqa: F401 - imported here first, so that later imports reuse it
