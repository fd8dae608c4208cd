"""The JSON documents of an export: in a zip, a folder, or a file of its own. Nothing is written to disk."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import UnpackedStream, files_below, opened
from agentctx_importers.json_elements import values
from agentctx_importers.records import Unreadable

MAX_MEMBERS: Final = 100_000


def exported_values(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """Yield what the documents whose names are wanted list, or are, with the name of the document.

    Raises `Unreadable` if there is no such document, or one cannot be read.
    """
    found = 0
    for found, each in enumerate(_values(path, is_wanted), start=1):  # noqa: B007
        yield each
    if not found:
        raise Unreadable(f"{path} has nothing to import.", hint="Give the zip of the export as it was sent.")


def _values(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    if path.is_dir():
        for file in files_below(path, lambda name: is_wanted(name) or name.endswith(".zip")):
            yield from _values(file, is_wanted)
    elif path.suffix == ".zip":
        with opened(path) as packed, _translated(path), zipfile.ZipFile(packed) as archive:
            yield from _of_archive(path, archive, is_wanted)
    else:
        with opened(path) as document:
            yield from ((path.name, value) for value in values(document))


def _of_archive(
    path: Path, archive: zipfile.ZipFile, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[str, Any]]:
    members = sorted(archive.infolist(), key=lambda each: each.filename)
    if len(members) > MAX_MEMBERS:
        raise Unreadable(f"{path} has more than {MAX_MEMBERS:,} members.")
    for member in members:
        name = member.filename.rpartition("/")[2]
        if not member.is_dir() and is_wanted(name):
            with archive.open(member) as stream:
                unpacked = UnpackedStream(stream, member.compress_size, name)
                yield from ((name, value) for value in values(unpacked))


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        raise Unreadable(f"{path} is not a zip that can be read: {error}.") from error
