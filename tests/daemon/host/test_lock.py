from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctx.daemon.host import lock
from agentctx.daemon.host.lock import acquire_lock, data_lock_path, socket_lock_path
from agentctx.errors import AlreadyRunning, ConfigInvalid

HOLDER = """
import sys
from pathlib import Path
from agentctx.daemon.host import lock
from agentctx.daemon.host.lock import acquire_lock
from agentctx.errors import AlreadyRunning
try:
    lock = acquire_lock(Path(sys.argv[1]))
except AlreadyRunning:
    print("refused", flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, os.fspath(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_second_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    path = data_lock_path(tmp_path)
    with holder(path) as process:
        assert line_of(process) == "held"
        with pytest.raises(AlreadyRunning) as caught:
            acquire_lock(path)
        assert f"pid {process.pid}" in caught.value.message
        assert f"kill {process.pid}" in caught.value.hint
        assert path.read_text() == f"{process.pid}\n"


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        assert line_of(process) == "held"
        process.kill()
        process.wait()
        with acquire_lock(path):
            assert path.read_text() == f"{os.getpid()}\n"


def test_one_of_many_contenders_gets_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as a, holder(path) as b, holder(path) as c:
        assert sorted(map(line_of, (a, b, c))) == ["held", "refused", "refused"]


def test_the_same_process_cannot_hold_it_twice_either(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with acquire_lock(path), pytest.raises(AlreadyRunning):
        acquire_lock(path)


def test_the_file_stays_and_close_is_idempotent(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = acquire_lock(path)
    lock.close()
    lock.close()
    assert path.exists()
    acquire_lock(path).close()


def test_a_longer_pid_of_before_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("12345678901234567\n")
    with acquire_lock(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_an_owner_without_a_pid_yet_is_still_an_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_claim_path", lambda _: None)
    path = tmp_path / "lock"
    with acquire_lock(path):
        path.write_text("")
        with pytest.raises(AlreadyRunning, match="not known yet"):
            acquire_lock(path)


def test_folder_and_file_are_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "agentctx.lock"
    with acquire_lock(path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("keep")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(ConfigInvalid, match="cannot be opened"):
        acquire_lock(tmp_path / "lock")
    assert target.read_text() == "keep"


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid):
        acquire_lock(tmp_path / "file" / "lock")


def test_the_lock_of_a_socket_is_next_to_it() -> None:
    assert socket_lock_path(Path("/run/agentctx/agentctx.sock")) == Path("/run/agentctx/agentctx.sock.lock")


def test_the_place_is_taken_also_when_the_folder_was_moved_away(tmp_path: Path) -> None:
    path = data_lock_path(tmp_path / "data")
    with holder(path) as process:
        assert line_of(process) == "held"
        elsewhere = path.parent.rename(tmp_path / "elsewhere")
        with pytest.raises(AlreadyRunning, match=f"pid {process.pid}"):
            acquire_lock(path)
        assert not path.parent.exists(), "it can be moved back"
        with pytest.raises(AlreadyRunning, match=f"pid {process.pid}"):
            acquire_lock(elsewhere / path.name)
    acquire_lock(path).close()


def test_the_place_is_free_after_a_kill(tmp_path: Path) -> None:
    path = data_lock_path(tmp_path / "data")
    with holder(path) as process:
        assert line_of(process) == "held"
        process.kill()
        process.wait()
        acquire_lock(path).close()
    acquire_lock(path).close()


def test_another_user_cannot_keep_us_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = data_lock_path(tmp_path / "data")
    with holder(path) as process:
        assert line_of(process) == "held"
        path.unlink()
        monkeypatch.setattr(lock, "_claimant", lambda _: None)
        acquire_lock(path).close()


@pytest.mark.parametrize("kind", ["pipe", "hard link"])
def test_what_is_not_a_file_of_its_own_is_refused(kind: str, tmp_path: Path) -> None:
    path, other = tmp_path / "lock", tmp_path / "other"
    other.write_text("precious")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        os.link(other, path)
    with pytest.raises(ConfigInvalid, match="it is not a file of agentctx"):
        acquire_lock(path)
    assert other.read_text() == "precious"
