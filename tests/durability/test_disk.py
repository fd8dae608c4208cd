from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.errors import StorageFull
from tests.durability.disk import faults
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect

MOST_TRIES = 10_000
LEFT_BYTES = 512 * 1024


def test_the_faults_are_of_every_kind() -> None:
    assert {fault.kind for fault in faults()} == {"write", "sync", "truncate", "open"}
    assert len(set(faults())) == len(faults()) == 212


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB, which fills quickly."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("NO FULL DISK WAS TESTED: a file system can only be mounted by root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def filled(folder: Path) -> Path:
    """Fill the disk with a file that leaves little space."""
    filler = folder / "filler"
    free = os.statvfs(folder)
    filler.write_bytes(bytes(free.f_bavail * free.f_frsize - LEFT_BYTES))
    return filler


def save_until_full(client: Client) -> tuple[int, StorageFull]:
    """Save until refused; return the number acknowledged, and the refusal."""
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


ENTRIES = 200


def fill_to_the_last_byte(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4_096)) == 4_096:
            pass
    return filler


def forget_if_possible(client: Client, ids: list[str]) -> set[str]:
    """Return the ids whose forgetting was refused."""
    refused = set()
    for entry_id in ids:
        try:
            client.forget(entry_id)
        except StorageFull:
            refused.add(entry_id)
    return refused


def test_a_forget_that_does_not_fit_is_refused_and_its_entry_stays(small_disk: Path) -> None:
    daemon = ForkedDaemon(small_disk)
    daemon.start('[embedding]\nprovider = "none"\n')
    try:
        with daemon.client() as client:
            ids = [client.save_knowledge(f"k{n}", f"text{n} " * 60).id for n in range(ENTRIES)]
            filler = fill_to_the_last_byte(small_disk)
            save_until_full(client)
            fill_to_the_last_byte(small_disk)
            refused = forget_if_possible(client, ids)
            assert refused
            for number, entry_id in enumerate(ids):
                sources = {passage.source_id for passage in client.search(f"text{number}").results}
                assert (f"k{number}" in sources) == (entry_id in refused)
            filler.unlink()
            save_when_possible(client)
            assert not forget_if_possible(client, sorted(refused))
        assert daemon.stop(signal.SIGTERM) == 0
        found = inspect(daemon.data_dir)
        assert not found.problems
        assert not set(ids) & found.stored.keys()
    finally:
        daemon.end()
