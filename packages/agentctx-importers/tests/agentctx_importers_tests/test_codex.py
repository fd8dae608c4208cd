"""Rollouts that Codex compressed."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from agentctx_importers import files
from agentctx_importers.codex import TRANSCRIPTS
from agentctx_importers.records import Item, Record, RefusedItem
from agentctx_importers_tests.samples import ASKED, SESSION, TOLD, codex_start, codex_turn, write_lines

OTHER = SESSION.replace("5", "6")


@pytest.fixture
def rollout(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    plain = write_lines(folder / "rollout-1.jsonl", codex_start(), *codex_turn("t1", ASKED, TOLD))
    packed = folder / "rollout-1.jsonl.zst"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return packed


@pytest.fixture
def zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of this name that reads gzip, because no Python before 3.14 has the real one."""

    def opened(file: BinaryIO) -> gzip.GzipFile:
        return gzip.GzipFile(fileobj=file)

    module = SimpleNamespace(ZstdFile=opened, ZstdError=gzip.BadGzipFile)
    monkeypatch.setitem(sys.modules, "compression.zstd", module)


def items(rollout: Path) -> list[Item]:
    return list(TRANSCRIPTS.read(rollout.parent))


@pytest.mark.usefixtures("zstd")
def test_a_compressed_rollout_is_read_once(rollout: Path) -> None:
    (packed,) = items(rollout)
    assert isinstance(packed, Record)
    assert TOLD in packed.content
    rollout.with_suffix("").write_bytes(gzip.decompress(rollout.read_bytes()))
    assert [each.id for each in items(rollout) if isinstance(each, Record)] == [packed.id]


@pytest.mark.usefixtures("zstd")
def test_what_is_damaged_or_far_too_large_is_refused_and_the_others_are_read(
    rollout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FREE_BYTES", 10_000)
    lines = [
        codex_start(id=OTHER),
        *codex_turn("t2", ASKED, f"{TOLD} It says so."),
        *[{"x": n} for n in range(9_000)],
    ]
    data = gzip.compress(write_lines(rollout.with_name("other"), *lines).read_bytes())
    bomb = gzip.compress(b"x" * 50_000_000)
    for name, content in (("cut", data[:-20]), ("bomb", bomb), ("other", b"(\xb5/\xfd")):
        rollout.with_name(f"rollout-{name}.jsonl.zst").write_bytes(content)
    found = items(rollout)
    assert len([each for each in found if isinstance(each, Record)]) == 2, "of a cut one what is there"
    reasons = {each.where[-14:-10]: each.reason for each in found if isinstance(each, RefusedItem)}
    assert "far larger than it should be" in reasons["bomb"]
    assert len(reasons) == 3


def test_without_the_package_it_is_refused_with_the_reason(
    rollout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    (refused,) = items(rollout)
    assert isinstance(refused, RefusedItem)
    assert "needs Python 3.14 or the package backports.zstd" in refused.reason
