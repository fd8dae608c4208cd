import os
from hashlib import sha256
from pathlib import Path

import pytest

from agentctx.ingest.extract import NotIngestible
from agentctx.ingest.read import read
from agentctx.ingest.walk import Found


def found(path: Path, *, is_named: bool = False) -> Found:
    status = path.stat()
    return Found(str(path), status.st_size, status.st_mtime_ns, is_named)


def test_bytes_digest_and_time(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"text\n" * 5_000)
    os.utime(file, ns=(1, 123_456_789))
    contents = read(found(file), 100_000)
    assert contents.data == b"text\n" * 5_000
    assert contents.digest == sha256(contents.data).hexdigest()
    assert (contents.size, contents.modified) == (25_000, 123_456_789)


def test_what_became_larger_meanwhile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("x" * 101)
    with pytest.raises(NotIngestible, match="larger than 100 bytes"):
        read(found(file), 100)


def test_a_large_binary_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    with file.open("wb") as stream:
        stream.write(b"\x7fELF\0\0\0\0" * 2_000)
        stream.truncate(1 << 40)
    with pytest.raises(NotIngestible, match="binary"):
        read(found(file), 1 << 50)


def test_a_link_that_took_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("secret")
    link = tmp_path / "b.md"
    link.symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        read(found(link), 100)
    assert read(found(link, is_named=True), 100).data == b"secret"


def test_a_pipe_that_took_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(NotIngestible, match="no regular file"):
        read(found(tmp_path / "a.md"), 100)
