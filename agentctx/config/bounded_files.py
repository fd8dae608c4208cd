"""Reads files that others may have replaced or filled: at most a bound, and without waiting for a pipe."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import FileIO
from typing import BinaryIO, Final

MAX_BYTES: Final = 4 * 1024 * 1024
"""More than any file that a person or agentctx writes by hand: settings, tokens, records."""


def read_bounded(path: str | os.PathLike[str], most: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes, or raise OSError, also for a pipe."""
    with FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        read = b""
        while len(read) <= most and (more := file.read(most + 1 - len(read))):
            read += more
    if len(read) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", os.fspath(path))
    return read


def lines_within(file: BinaryIO, most: int, *, first: int) -> Iterator[bytes]:
    """Yield the lines of a stream. Raises OSError for one over `most` bytes, or `first` for the first one."""
    number, limit = 1, first
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise OSError(errno.EMSGSIZE, f"line {number} is longer than {limit:,} bytes")
        yield line
        number, limit = number + 1, most
