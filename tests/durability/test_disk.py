from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.errors import StorageFull
from agentctx.storage.file.reserve import Reserve
from tests.durability.disk import faults
from tests.durability.forked_daemon import ForkedDaemon
from tests.durability.inspection import inspect
from tests.live_files import contents

MOST_TRIES = 10_000
LEFT_BYTES = 512 * 1024


def test_the_faults_are_of_every_kind() -> None:
    assert {fault.kind for fault in faults()} == {"write", "sync", "truncate", "open"}
    assert len(set(faults())) == len(faults()) == 212


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB, which fills quickly and has no room for a reserve."""
    yield from mounted(tmp_path / "small", "16m")


@pytest.fixture
def disk_with_reserve(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "small", "64m")


def mounted(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
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


RESERVE_BYTES = 16 * 1024 * 1024
FORGOTTEN = 100
CANARY = "zanzibar"
PATIENCE_S = 30.0


def fill_to_the_last_byte(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4_096)) == 4_096:
            pass
    return filler


def forget(client: Client, ids: list[str]) -> None:
    for entry_id in ids:
        client.forget(entry_id)


def until(is_so: Callable[[], bool], what: str) -> None:
    looked = threading.Event()
    for _ in range(1_000):
        if is_so():
            return
        looked.wait(PATIENCE_S / 1_000)
    raise AssertionError(f"not within {PATIENCE_S:g} s: {what}")


def is_in_a_file(folder: Path, text: str) -> bool:
    return any(text.encode() in held for path, held in contents(folder) if path.name != "filler")


def test_on_a_full_disk_everything_can_be_forgotten(disk_with_reserve: Path) -> None:
    daemon = ForkedDaemon(disk_with_reserve)
    reserve = Reserve(daemon.data_dir, RESERVE_BYTES)
    daemon.start('[embedding]\nprovider = "fake"\n')
    try:
        with daemon.client() as client:
            ids = [client.save_knowledge(f"k{n}", f"{CANARY}{n} " * 60).id for n in range(FORGOTTEN)]
            kept = client.save_knowledge("kept", "the zebra is on the disk").id
            client.drain()
            until(lambda: reserve.state().is_whole, "the reserve is made")
            assert is_in_a_file(daemon.data_dir, CANARY)

            filler = fill_to_the_last_byte(disk_with_reserve)
            save_until_full(client)
            forget(client, ids)
            until(lambda: not is_in_a_file(daemon.data_dir, CANARY), "what was forgotten is in no file")

            fill_to_the_last_byte(disk_with_reserve)
            save_until_full(client)
            forget(client, [kept])

            filler.unlink()
            save_when_possible(client)
            until(lambda: reserve.state().is_whole, "the reserve is filled again")
        assert "reserve_given_up" in daemon.events()
        assert daemon.stop(signal.SIGTERM) == 0
        found = inspect(daemon.data_dir)
        assert not found.problems
        assert not {*ids, kept} & found.stored.keys()
    finally:
        daemon.end()


def test_a_reserve_that_was_given_up_is_still_so_after_a_kill(disk_with_reserve: Path) -> None:
    daemon = ForkedDaemon(disk_with_reserve)
    reserve = Reserve(daemon.data_dir, RESERVE_BYTES)
    daemon.start('[embedding]\nprovider = "none"\n')
    try:
        with daemon.client() as client:
            ids = [client.save_knowledge(f"k{n}", f"{CANARY}{n} " * 60).id for n in range(3)]
            until(lambda: reserve.state().is_whole, "the reserve is made")
        daemon.stop(signal.SIGKILL)
        reserve.give_up()
        fill_to_the_last_byte(disk_with_reserve)
        daemon.start('[embedding]\nprovider = "none"\n')
        with daemon.client() as client:
            assert "kept for forgetting" in save_until_full(client)[1].message
            forget(client, ids)
    finally:
        daemon.end()
