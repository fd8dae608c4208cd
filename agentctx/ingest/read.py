"""One file's bytes, and what the system says of them at that moment."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath

from agentctx.ingest.extract import ExtractRefusal, NotIngestible, surely_binary
from agentctx.ingest.walk import Found

HEAD_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Contents:
    """`modified` is from before the reading: a file that changes meanwhile is read again the next time."""

    data: bytes
    digest: str
    size: int
    modified: int


def read(found: Found, max_bytes: int) -> Contents:
    """Read a file that was found. What is surely no text is given up after its first bytes.

    Raises:
        NotIngestible: it is binary, has grown over `max_bytes`, or is no longer a regular file.
        OSError: it is gone, or cannot be read.
    """
    # A pipe that took the place of the file must not be waited for, a link not be followed.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if found.is_named else os.O_NOFOLLOW)
    with open(os.open(found.path, flags), "rb") as stream:  # noqa: PTH123 - a descriptor
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotIngestible(ExtractRefusal.UNSUPPORTED, "no regular file")
        data = stream.read(HEAD_BYTES)
        if surely_binary(PurePath(found.path), data):
            raise NotIngestible(ExtractRefusal.BINARY, "binary")
        data += stream.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes:
        raise NotIngestible(ExtractRefusal.TOO_LARGE, f"larger than {max_bytes:,} bytes")
    return Contents(data, sha256(data).hexdigest(), len(data), status.st_mtime_ns)
