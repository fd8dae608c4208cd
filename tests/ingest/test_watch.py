import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from queue import Queue
from threading import Event

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


def test_other_errors_end_the_watch(tmp_path: Path) -> None:
    watch = Watch([str(tmp_path)], Passes(InvalidInput("The namespace is none.")), print, Event())
    with pytest.raises(InvalidInput, match="namespace"):
        watch.run([set()])


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


def test_entries_of_a_folder_that_was_replaced_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    passes = Passes()
    watch = Watch([str(root)], passes, print, Event())
    root.rename(tmp_path / "away")
    root.mkdir()
    with pytest.raises(InvalidInput, match="removed or replaced"):
        watch.run([{str(root)}])
    assert passes.made == []


def test_only_folders_can_be_watched(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    check_roots([str(tmp_path)])
    with pytest.raises(InvalidInput, match="is not a folder"):
        check_roots([str(tmp_path), str(tmp_path / "a")])


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(InvalidInput) as caught:
        next(file_events([str(tmp_path)], Event()))
    assert "install watchfiles" in caught.value.hint


def test_real_events_of_real_files(tmp_path: Path) -> None:
    stop, bursts = Event(), Queue[set[str]]()

    def listen() -> None:
        for burst in file_events([str(tmp_path)], stop):
            bursts.put(burst)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        bursts.get(timeout=DONE_S)
        (tmp_path / "a.md").write_text("text")
        wanted = str(tmp_path / "a.md")
        while wanted not in bursts.get(timeout=DONE_S):
            pass
    finally:
        stop.set()
        thread.join(DONE_S)
    assert not thread.is_alive()
