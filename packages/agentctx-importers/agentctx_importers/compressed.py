"""Opens files that zstd compressed, which Python reads since 3.14, or with the package `backports.zstd`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from agentctx_importers.files import UnpackedStream, opened
from agentctx_importers.records import Unreadable

_MODULES: Final = ("compression.zstd", "backports.zstd")


@contextmanager
def opened_zstd(path: Path) -> Iterator[BinaryIO]:
    """Open what a file unpacks to. Raises `Unreadable`, while reading too, and OSError."""
    module = _module()
    with opened(path) as file:
        unpacked = UnpackedStream(module.ZstdFile(file), path.stat().st_size, path.name)
        try:
            yield cast("BinaryIO", io.BufferedReader(unpacked))
        except (EOFError, module.ZstdError) as error:
            raise Unreadable(f"It cannot be unpacked: {error}.") from error


def _module() -> Any:
    for name in _MODULES:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise Unreadable(
        "It is compressed with zstd, which needs Python 3.14 or the package backports.zstd.",
        hint="Install it beside agentctx: pip install backports.zstd",
    )
