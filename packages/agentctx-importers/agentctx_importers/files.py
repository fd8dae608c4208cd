"""Reads files of strangers: only regular ones, inside the given folder, with limits on every size."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from agentctx_importers.records import RefusedItem, Unreadable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_TEXT_BYTES: Final = 16 * 1024 * 1024
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
MAX_FILES: Final = 200_000
MAX_RATIO: Final = 200
"""How many times as large as compressed a text may be; chats are five to twenty times as large."""
FREE_BYTES: Final = 64 * 1024 * 1024
"""What a text may be in any case."""
_STEP: Final = 1024 * 1024


class ByteStream(Protocol):
    """Anything that bytes are read from."""

    def read(self, size: int, /) -> bytes: ...


class UnpackedStream(io.RawIOBase):
    """What a compressed text unpacks to. Raises `Unreadable` when it is too large for its compressed size."""

    def __init__(self, stream: ByteStream, packed_bytes: int, name: str) -> None:
        self._stream, self._name = stream, name
        self._left = max(FREE_BYTES, MAX_RATIO * packed_bytes)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        data = self._stream.read(min(len(view), self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable(f"{self._name} is compressed, and far larger than it should be.")
        view[: len(data)] = data
        return len(data)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file. Raises `Unreadable` for anything else, such as a pipe, and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable(f"{path} is not a regular file.", hint="Give a file or the folder it is in.")
        yield file


def text_of(path: Path) -> str | RefusedItem:
    """Return the text of a file, or why it is not read. Bytes that are not UTF-8 become `\ufffd`."""
    try:
        with opened(path) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except Unreadable as error:
        return RefusedItem(str(path), error.message)
    except OSError as error:
        return RefusedItem(str(path), f"It cannot be read: {error.strerror}.")
    if len(data) > MAX_TEXT_BYTES:
        return RefusedItem(str(path), f"It has more than {MAX_TEXT_BYTES:,} bytes.")
    return data.decode(errors="replace").removeprefix("\ufeff")


def lines_of(
    path: Path, open_as: Callable[[Path], AbstractContextManager[BinaryIO]] = opened
) -> Iterator[tuple[int, bytes] | RefusedItem]:
    """Yield the lines of a file that are not empty with their numbers; of one that is too long, a refusal."""
    with open_as(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) <= MAX_LINE_BYTES:
                if line.strip():
                    yield number, line
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(_STEP)  # noqa: PLW2901 - the rest of the same line
            yield RefusedItem(f"{path.name}:{number}", f"The line has more than {MAX_LINE_BYTES:,} bytes.")


def modified_ms(path: Path) -> int:
    """Return when the file was changed."""
    return path.stat().st_mtime_ns // 1_000_000


def files_below(root: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Yield the files of a folder whose names are wanted, in order; links out of it and hidden ones are not.

    Folders that may not be read are yielded, too, so that opening them says so. Raises `Unreadable` for a
    folder with more files than a memory has.
    """
    found = 0
    closed: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=closed.append, followlinks=False):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(filter(is_wanted, names)):
            if (found := found + 1) > MAX_FILES:
                message = f"{root} has more than {MAX_FILES:,} files."
                raise Unreadable(message, hint="Give a folder inside it.")
            file = Path(folder, name)
            if is_inside(file, root) if file.is_symlink() else file.is_file():
                yield file
    yield from (Path(error.filename) for error in closed if isinstance(error, PermissionError))


def is_inside(file: Path, root: Path) -> bool:
    """Return whether this is a regular file that is in the folder even if it is a link."""
    try:
        return file.is_file() and file.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False
