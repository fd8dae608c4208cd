from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.errors import StorageFull
from tests.durability.disk import SUITE, faults
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.durability.powercut_recording import strace_is_missing
from tests.durability.suite import expect_none, expect_violations

SEED = 1
MOST_TRIES = 10_000
LEFT_BYTES = 512 * 1024
MISSING = strace_is_missing()
needs_strace = pytest.mark.skipif(bool(MISSING), reason=f"NO FAILING DISK WAS TESTED: {MISSING}")


@needs_strace
def test_a_failing_disk_loses_nothing_and_service_resumes(tmp_path: Path) -> None:
    expect_none(SUITE, SEED, tmp_path)


@needs_strace
def test_a_broken_build_is_noticed(tmp_path: Path) -> None:
    expect_violations(SUITE, SEED, tmp_path)


def test_the_faults_are_of_every_kind() -> None:
    assert {fault.kind for fault in faults()} == {"write", "sync", "truncate", "open"}
    assert len(set(faults())) == len(faults()) == 212


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """16 MiB, which are full soon."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("NO FULL DISK WAS TESTED: a file system can only be mounted by root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def filled(folder: Path) -> Path:
    """A file that leaves little space for others."""
    filler = folder / "filler"
    free = os.statvfs(folder)
    filler.write_bytes(bytes(free.f_bavail * free.f_frsize - LEFT_BYTES))
    return filler


def save_until_full(client: Client) -> tuple[int, StorageFull]:
    """How many were acknowledged, and the refusal."""
    for number in range(MOST_TRIES):
        try:
            client.save_knowledge(f"more {number}", f"text {number} " * 500)
        except StorageFull as error:
            return number, error
    raise AssertionError("the disk never was full")


def save_when_possible(client: Client) -> None:
    for _ in range(MOST_TRIES):
        with suppress(StorageFull):
            client.save_knowledge("after", "there is space again")
            return
    raise AssertionError("the daemon never took a write again")


def test_a_full_disk_refuses_writes_answers_questions_and_resumes(small_disk: Path) -> None:
    daemon = ForkedDaemon(small_disk)
    daemon.start('[embedding]\nprovider = "fake"\n')
    try:
        with daemon.client() as client:
            client.save_knowledge("kept", "the zebra is on the disk")
            filler = filled(small_disk)
            saved, refusal = save_until_full(client)
            assert refusal.hint
            assert client.search("zebra").results[0].source_id == "kept"
            filler.unlink()
            save_when_possible(client)
            client.drain()
        daemon.stop()
        found = inspect(daemon.data_dir)
        assert not found.problems
        contents = {version.content for version in found.stored.values()}
        assert {"the zebra is on the disk", "there is space again"} <= contents
        assert len(contents) == saved + 2
    finally:
        daemon.end()
