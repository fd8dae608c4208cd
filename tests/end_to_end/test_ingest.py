"""`agentctx ingest` as a user runs it: real files, a real daemon, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentctx import Client
from agentctx.wire import EntryView
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import ForkedCommand, run_forked

MakeDaemon = Callable[..., DaemonProcess]
NO_MODEL = '[embedding]\nprovider = "none"\n'
FAKE = '[embedding]\nprovider = "fake"\n'
DONE_S = 60.0


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> DaemonProcess:
    return make_daemon(config=NO_MODEL).start()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "tea.md").write_text("# Tea\n\nAt four.\n\nThe kettle is descaled every first Monday.\n")
    (folder / "sub" / "code.py").write_text("def answer() -> int:\n    return 42\n")
    (folder / ".env").write_text("PASSWORD=sesame\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\0")
    return folder


def command(daemon: DaemonProcess, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "agentctx", *words(daemon, *arguments)]


def words(daemon: DaemonProcess, *arguments: object) -> list[str]:
    return ["--socket", str(daemon.socket), "ingest", *map(str, arguments)]


def ingest(daemon: DaemonProcess, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_forked(words(daemon, *arguments))


def report(daemon: DaemonProcess, *arguments: object, code: int = 0) -> dict[str, Any]:
    done = ingest(daemon, "--json", *arguments)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def counts(document: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in document["counts"].items() if count}


def entries(client: Client) -> dict[str, EntryView]:
    return {str(entry.key): entry for entry in client.iterate(content=True)}


def many_files(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / f"{number // 100}").mkdir(parents=True, exist_ok=True)
        file = folder / f"{number // 100}" / f"{number}.txt"
        file.write_text(f"file number {number}\n" + "some line of text\n" * 20)
    return folder


def test_a_hit_shows_file_and_lines(daemon: DaemonProcess, folder: Path) -> None:
    document = report(daemon, folder, "--tag", "house")
    assert counts(document) == {"new": 2, "skipped": 2}
    assert {(Path(each["path"]).name, each["reason"]) for each in document["skipped"]} == {
        (".env", "hidden"),
        ("picture.png", "binary"),
    }
    with daemon.client() as client:
        (hit, *_) = client.search("descaled kettle").results
        assert hit.location is not None
        assert (hit.location.path, hit.location.first, hit.location.last) == (str(folder / "tea.md"), 1, 5)
        assert (hit.origin, hit.trust, hit.attributes["tags"]) == ("document", "external", ["house"])


def test_line_numbers_are_correct_throughout_a_long_file(daemon: DaemonProcess, folder: Path) -> None:
    long = folder / "long.txt"
    long.write_text("".join(f"line {number} is about word{number}\n" for number in range(1, 12_001)))
    assert counts(report(daemon, long)) == {"new": 1}
    with daemon.client() as client:
        assert set(entries(client)) == {str(long), f"{long}#2", f"{long}#3", f"{long}#4"}
        for number in (1, 3_000, 6_001, 9_999, 12_000):
            (hit, *_) = client.search(f"word{number}").results
            assert hit.location is not None
            assert hit.location.first <= number <= hit.location.last
            assert hit.location.last - hit.location.first < 60


def test_a_second_run_saves_nothing(daemon: DaemonProcess, folder: Path) -> None:
    report(daemon, folder)
    with daemon.client() as client:
        before, saved = entries(client), client.status().activity.saved
        assert counts(report(daemon, folder)) == {"unchanged": 2, "skipped": 2}
        assert entries(client) == before
        assert client.status().activity.saved == saved == len(before)


def test_changed_touched_removed_renamed_and_shrunk_files(daemon: DaemonProcess, folder: Path) -> None:
    long = folder / "long.txt"
    long.write_text("some line of text\n" * 8_000)
    (folder / "gone.md").write_text("soon gone\n")
    (folder / "old.md").write_text("will get another name\n")
    report(daemon, folder)
    long.write_text("short now\n")
    (folder / "tea.md").write_text("# Tea\n\nAt five.\n")
    os.utime(folder / "sub" / "code.py", ns=(1, 1))
    (folder / "gone.md").unlink()
    (folder / "old.md").rename(folder / "new.md")
    with daemon.client() as client:
        before = entries(client)
        document = report(daemon, folder)
        assert counts(document) == {"new": 1, "changed": 2, "touched": 1, "withdrawn": 2, "skipped": 2}
        assert {Path(each["path"]).name for each in document["withdrawn"]} == {"gone.md", "old.md"}
        after = entries(client)
        code = str(folder / "sub" / "code.py")
        assert (after[code].version, after[code].content) == (before[code].version, before[code].content)
        assert after[code].attributes["file"]["modified"] == 1
        assert {Path(key).name for key in set(before) - set(after)} == {"long.txt#2", "gone.md", "old.md"}
        assert counts(report(daemon, folder, "--remove-missing"))["removed"] == 2
        assert {Path(key).name for key in entries(client)} == {
            "tea.md",
            "code.py",
            "long.txt",
            "new.md",
        }
        assert counts(report(daemon, folder)) == {"unchanged": 4, "skipped": 2}


def test_ignore_files_and_globs(daemon: DaemonProcess, folder: Path) -> None:
    (folder / ".gitignore").write_text("sub/\n")
    assert [Path(path).name for path in report(daemon, folder)["new"]] == ["tea.md"]
    document = report(daemon, folder, "--no-ignore", "--exclude", "*.md")
    assert [Path(path).name for path in document["new"]] == ["code.py"]
    assert [(Path(each["path"]).name, each["reason"]) for each in document["withdrawn"]] == [
        ("tea.md", "excluded")
    ]


def test_a_dry_run_saves_nothing(daemon: DaemonProcess, folder: Path) -> None:
    done = ingest(daemon, folder, "--dry-run", "--verbose")
    assert done.returncode == 0
    assert f"new        {folder}/tea.md" in done.stdout
    assert f"skipped    {folder}/.env  (hidden)" in done.stdout
    with daemon.client() as client:
        assert client.status().entries == {}


def test_wait_returns_once_everything_is_searchable_by_meaning(make_daemon: MakeDaemon, folder: Path) -> None:
    daemon = make_daemon(config=FAKE).start()
    document = report(daemon, folder, "--wait")
    assert document["embedding"] == {"pending": 0, "buried": 0}
    with daemon.client() as client:
        status = client.status()
        assert (status.queue.pending, status.vectors) == (0, status.chunks)


def test_ingest_without_a_daemon(tmp_path: Path, make_daemon: MakeDaemon, folder: Path) -> None:
    done = ingest(make_daemon(config=NO_MODEL), folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert "agentctx serve" in done.stderr


class Running:
    """A running ingest, observed through the daemon."""

    def __init__(self, daemon: DaemonProcess, *arguments: object) -> None:
        self.daemon = daemon
        self.process = ForkedCommand(words(daemon, *arguments), prints=True)

    def wait_for_saves(self) -> None:
        """Wait until the daemon has some of the files."""
        with self.daemon.client() as client:
            while not client.status().entries:
                assert self.process.poll() is None, self.process.end(DONE_S)


MANY = 1_200


def test_ctrl_c_stops_after_the_batch_and_the_same_command_resumes(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    folder = many_files(tmp_path / "many", MANY)
    running = Running(daemon, folder)
    running.wait_for_saves()
    running.process.send_signal(signal.SIGINT)
    code, out, err = running.process.end(DONE_S)
    assert code == 130, err
    assert "run the same command to resume" in err
    with daemon.client() as client:
        done = client.status().entries["knowledge"]
    assert 0 < done < MANY
    assert out.split()[:2] == ["new", str(done)], "the report counts what was saved"
    assert counts(report(daemon, folder)) == {"unchanged": done, "new": MANY - done}
    with daemon.client() as client:
        assert client.status().entries["knowledge"] == MANY


def test_a_daemon_killed_midway_loses_nothing(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    daemon = make_daemon(config=NO_MODEL).start()
    folder = many_files(tmp_path / "many", MANY)
    running = Running(daemon, folder)
    running.wait_for_saves()
    daemon.stop(signal.SIGKILL)
    code, _, err = running.process.end(DONE_S)
    assert code == 3, err
    assert "error: " in err
    daemon.start()
    with daemon.client() as client:
        done = client.status().entries["knowledge"]
    assert 0 < done < MANY
    assert counts(report(daemon, folder)) == {"unchanged": done, "new": MANY - done}


@pytest.fixture
def watching(daemon: DaemonProcess, folder: Path) -> Iterator[Watching]:
    watching = Watching(daemon, folder)
    yield watching
    watching.end()


class Watching:
    """A running watch: its lines, and an event for each."""

    def __init__(self, daemon: DaemonProcess, folder: Path, *, prefix: Sequence[str] = ()) -> None:
        self.process: ForkedCommand | subprocess.Popen[bytes]
        if prefix:
            self.process = subprocess.Popen(
                [*prefix, *command(daemon, folder, "--watch")],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        else:
            self.process = ForkedCommand(words(daemon, folder, "--watch"), prints=True, merged=True)
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, *wanted: str) -> None:
        """Wait until a line contains all of these texts."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: any(all(part in line for part in wanted) for line in self.lines), DONE_S
            )
        assert found, (wanted, self.lines)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(DONE_S)
        self._reader.join(DONE_S)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                with self._changed:
                    self.lines.append(line.decode().rstrip("\n"))
                    self._changed.notify_all()


def test_a_watched_folder_stays_in_sync(daemon: DaemonProcess, folder: Path, watching: Watching) -> None:
    watching.wait_for("watching")
    with daemon.client() as client:
        assert len(entries(client)) == 2
        (folder / "new.md").write_text("a new one\n")
        watching.wait_for("new", "new.md")
        (folder / "new.md").write_text("another text in it\n")
        watching.wait_for("changed", "new.md")
        assert entries(client)[str(folder / "new.md")].content == "another text in it\n"
        (folder / "new.md").rename(folder / "sub" / "renamed.md")
        watching.wait_for("new ", "renamed.md")
        watching.wait_for("withdrawn", "new.md")
        (folder / ".agentctxignore").write_text("sub/\n")
        watching.wait_for("withdrawn", "code.py", "ignored")
        assert set(entries(client)) == {str(folder / "tea.md")}
    assert watching.end() == 0


def test_a_watch_survives_a_restart_of_the_daemon(
    daemon: DaemonProcess, folder: Path, watching: Watching
) -> None:
    watching.wait_for("watching")
    daemon.stop(signal.SIGKILL)
    (folder / "meanwhile.md").write_text("written while nobody listened\n")
    watching.wait_for("Waiting for it")
    daemon.start()
    watching.wait_for("The daemon is back")
    watching.wait_for("new", "meanwhile.md")
    with daemon.client() as client:
        assert str(folder / "meanwhile.md") in entries(client)
    assert watching.end() == 0
