import os
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Self

import pytest

from agentctx.errors import DaemonUnreachable, InvalidInput, StorageFull
from agentctx.ingest import watch as watching
from agentctx.ingest.watch import MAX_SCOPES, Watch, check_roots, file_events, scopes_of

DONE_S = 20.0


@pytest.mark.parametrize(
    ("changed", "scopes"),
    [
        ((), []),
        (("/d/a.md",), ["/d/a.md"]),
        (("/d/b", "/d/a"), ["/d/a", "/d/b"]),
        (("/d/sub", "/d/sub/a", "/d/sub/b/c"), ["/d/sub"]),
        (("/other/a",), []),
        (("/d",), None),
        (("/d/.gitignore",), None),
        (("/d/sub/.agentctxignore", "/d/sub/a"), ["/d/sub"]),
        (("/d/.git/index.lock", "/d/.git/refs/heads/main"), []),
        (("/d/sub/.git/info/exclude",), ["/d/sub"]),
        (("/d/.git/info/exclude",), None),
        (tuple(f"/d/{number}" for number in range(MAX_SCOPES + 1)), None),
    ],
)
def test_paths_to_scan_after_a_burst(changed: Collection[str], scopes: list[str] | None) -> None:
    assert scopes_of(changed, ["/d"]) == scopes


def test_a_folder_inside_one_with_such_a_name_is_watched() -> None:
    assert scopes_of(["/home/CVS/d/a"], ["/home/CVS/d"]) == ["/home/CVS/d/a"]


class Passes:
    """Records the passes, and fails when asked to."""

    def __init__(self, *failures: Exception | None) -> None:
        self.failures = list(failures)
        self.made: list[Sequence[str] | None] = []

    def __call__(self, scopes: Sequence[str] | None) -> None:
        self.made.append(scopes)
        failure = self.failures.pop(0) if self.failures else None
        if failure:
            raise failure


def test_a_full_scan_runs_first_and_none_while_idle(tmp_path: Path) -> None:
    passes, file = Passes(), str(tmp_path / "a")
    watch = Watch([str(tmp_path)], passes, print, Event())
    watch.run([{file}, set(), {file}, {"/elsewhere"}, set()])
    assert passes.made == [None, [file]]


def test_while_the_daemon_is_away_it_waits_and_then_looks_at_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RETRY_S", 0.0)
    gone = DaemonUnreachable("No daemon answers.")
    passes, said = Passes(None, gone, gone, StorageFull("No space."), None), list[str]()
    watch = Watch([str(tmp_path)], passes, said.append, Event())
    watch.run([set(), {str(tmp_path / "a")}])
    assert passes.made == [None, [str(tmp_path / "a")], None, None, None]
    assert said == ["No daemon answers. Waiting for it to come back.", "The daemon is back."]


def test_other_errors_end_the_watch_only_at_its_first_pass(tmp_path: Path) -> None:
    error = InvalidInput("The namespace is none.")
    with pytest.raises(InvalidInput, match="namespace"):
        Watch([str(tmp_path)], Passes(error), print, Event()).run([set()])
    passes, said = Passes(None, error, ValueError("odd\nname"), error), list[str]()
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    Watch([str(tmp_path)], passes, said.append, Event()).run([set(), {a}, {a}, {b}, {a}, {b}])
    assert passes.made == [None, [a], None, None, None, [b]], "what was missed is made up for"
    assert said == [
        "This change was not ingested: InvalidInput: The namespace is none.",
        "This change was not ingested: ValueError: odd name",
    ]


def test_it_ends_when_it_is_stopped(tmp_path: Path) -> None:
    stop, passes = Event(), Passes()

    def events() -> Iterator[set[str]]:
        yield set()
        stop.set()
        yield {str(tmp_path / "a")}

    Watch([str(tmp_path)], passes, print, stop).run(events())
    assert passes.made == [None]


def test_a_stop_ends_the_wait_for_the_daemon(tmp_path: Path) -> None:
    stop = Event()

    def fail(scopes: Sequence[str] | None) -> None:
        stop.set()
        raise DaemonUnreachable("No daemon answers.")

    Watch([str(tmp_path)], fail, print, stop).run([set()])


def test_events_that_are_lost_lead_to_a_look_at_everything(tmp_path: Path) -> None:
    passes = Passes()
    Watch([str(tmp_path)], passes, print, Event()).run([set(), None, set()])
    assert passes.made == [None, None]


def test_only_folders_can_be_watched(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    check_roots([str(tmp_path)])
    with pytest.raises(InvalidInput, match="is not a folder"):
        check_roots([str(tmp_path), str(tmp_path / "a")])


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(InvalidInput) as caught:
        next(iter(file_events([str(tmp_path)], Event(), print)))
    assert "install watchfiles" in caught.value.hint


class Listening:
    """Receives the real events of a folder in a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: list[str] = []
        self.bursts = Queue[Collection[str] | None]()
        self._stop = Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DONE_S)
        assert not self._thread.is_alive()

    def _listen(self) -> None:
        for burst in file_events([str(self.root)], self._stop, self.said.append):
            self.bursts.put(burst)

    def await_path(self, path: Path) -> None:
        while str(path) not in (self.bursts.get(timeout=DONE_S) or ()):
            pass

    def await_loss(self) -> None:
        while self.bursts.get(timeout=DONE_S) is not None:
            pass


def test_real_events_of_real_files(tmp_path: Path) -> None:
    with Listening(tmp_path) as heard:
        assert heard.bursts.get(timeout=DONE_S) == set()
        (tmp_path / "a.md").write_text("text")
        heard.await_path(tmp_path / "a.md")


@pytest.mark.parametrize("is_there_before", [False, True])
def test_a_name_that_is_not_utf8_does_not_end_the_watch(tmp_path: Path, is_there_before: bool) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.md")
    if is_there_before:
        odd.write_text("text")
    with Listening(tmp_path) as heard:
        assert heard.bursts.get(timeout=DONE_S) == set()
        for text in ("one", "two"):
            odd.write_text(text)
            heard.await_loss()
        heard.bursts.get(timeout=DONE_S)
        (tmp_path / "a.md").write_text("text")
        heard.await_path(tmp_path / "a.md")
    assert len(heard.said) == 1
    assert "Unable to decode path" in heard.said[0]


def test_a_folder_that_goes_and_comes_back_is_watched_again(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    with Listening(root) as heard:
        assert heard.bursts.get(timeout=DONE_S) == set()
        root.rename(tmp_path / "away")
        heard.await_loss()
        (tmp_path / "away").rename(root)
        heard.await_loss()
        heard.bursts.get(timeout=DONE_S)
        (root / "a.md").write_text("text")
        heard.await_path(root / "a.md")


class Panic(BaseException):
    """Not an Exception, like a panic of the watching library."""


def test_whatever_the_library_raises_is_said_once_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RETRY_S", 0.0)
    calls: list[int] = []
    stop = Event()

    def watch(*_: str, **__: object) -> Iterator[set[tuple[int, str]]]:
        calls.append(1)
        if len(calls) < 4:
            raise (Panic("broken"), OSError("no inotify"), Panic("broken"))[len(calls) - 1]
        yield {(1, f"{tmp_path}/a")}
        stop.set()

    monkeypatch.setattr("watchfiles.watch", watch)
    said: list[str] = []
    heard = list(file_events([str(tmp_path)], stop, said.append))
    assert heard == [None] * 4, "the first burst after a loss is a look at everything"
    assert [line.split(".")[0] for line in said] == [
        "Watching was interrupted: Panic: broken",
        "Watching was interrupted: OSError: no inotify",
    ]
