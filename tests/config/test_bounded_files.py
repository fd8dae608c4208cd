from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path

import pytest

from agentctx.config.bounded_files import lines_within, read_bounded


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_bounded(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="larger than 9 bytes") as raised:
        read_bounded(path, 9)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link to a pipe"])
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path = Path("/dev/zero")
        case _:
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"not a regular file|directory"):
        read_bounded(path)


def test_lines_are_yielded_until_one_is_too_long() -> None:
    lines = lines_within(BytesIO(b"a\n" + b"b" * 5 + b"\n" + b"c" * 9), 8, first=2)
    assert [next(lines), next(lines)] == [b"a\n", b"bbbbb\n"]
    with pytest.raises(OSError, match="line 3 is longer than 8 bytes"):
        next(lines)
    with pytest.raises(OSError, match="line 1 is longer than 2 bytes"):
        next(lines_within(BytesIO(b"abcdef"), 8, first=2))
    assert list(lines_within(BytesIO(b""), 8, first=2)) == []
