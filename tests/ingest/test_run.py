import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from threading import Event
from typing import Unpack

import pytest

from agentctx.client.options import ListOptions
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.ingest.delivery import IngestTarget, IngestTask
from agentctx.ingest.extract import ExtractedText, extract
from agentctx.ingest.known import Labels
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.run import absolute, check, run_pass, wait_until_embedded
from agentctx.ingest.unread import CHANGING, MissingPolicy
from agentctx.ingest.walk import WalkSelection
from agentctx.wire import EntryView, ForgetReply, QueueReply, SaveRequest, SaveResult, StatusReply
from tests.client.stub_daemon import queue_reply, status_reply
from tests.ingest.memory import Memory
from tests.ingest.passes import counts, ingested, task_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.md", "b.md", "sub/c.md"):
        (folder / name).write_text(f"text of {name}\n")
    return folder


def test_the_second_run_reads_and_sends_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    assert counts(ingested(memory, folder)) == {"new": 3}
    memory.saved.clear()
    monkeypatch.setattr("agentctx.ingest.delivery.read", lambda *_, **__: pytest.fail("a file was read"))
    assert counts(ingested(memory, folder)) == {"unchanged": 3}
    assert memory.saved == []


def test_changed_touched_and_new_files(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    memory.saved.clear()
    (folder / "a.md").write_text("another text\n")
    os.utime(folder / "b.md", ns=(1, 1))
    (folder / "d.md").write_text("new\n")
    report = ingested(memory, folder)
    assert counts(report) == {"new": 1, "changed": 1, "touched": 1, "unchanged": 1}
    assert sorted(memory.saved) == [str(folder / name) for name in ("a.md", "b.md", "d.md")]
    assert counts(ingested(memory, folder)) == {"unchanged": 4}


def test_a_renamed_file_is_new_and_withdrawn(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").rename(folder / "z.md")
    assert counts(ingested(memory, folder)) == {"new": 1, "withdrawn": 1, "unchanged": 2}


def test_what_is_gone_or_excluded_is_withdrawn_until_it_is_back_and_removed_on_request(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").rename(folder.parent / "a.md")
    (folder / ".agentctxignore").write_text("sub/\n")
    for is_new in (True, False):
        report = ingested(memory, folder)
        assert [(Path(each.source).name, each.reason, each.is_new) for each in report.withdrawn] == [
            ("a.md", "gone", is_new),
            ("c.md", "ignored", is_new),
        ]
        assert (len(memory.entries), memory.answered()) == (3, [str(folder / "b.md")])
    memory.saved.clear()
    (folder.parent / "a.md").rename(folder / "a.md")
    assert counts(ingested(memory, folder)) == {"unchanged": 2, "returned": 1, "withdrawn": 1, "skipped": 2}
    assert memory.answered() == [str(folder / "a.md"), str(folder / "b.md")]
    assert memory.saved == []
    (folder / "a.md").unlink()
    assert counts(ingested(memory, folder, policy=MissingPolicy.REMOVE))["removed"] == 2
    assert list(memory.entries) == [str(folder / "b.md")]


def test_what_cannot_be_seen_or_decoded_is_never_removed(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").write_bytes(b"\xff\x81" * 40)
    (folder / "b.md").write_text("")
    (folder / "sub").rename(folder / "away")
    (folder / "sub").symlink_to(folder / "sub")  # a loop, which cannot be read
    report = ingested(memory, folder / "a.md", folder / "b.md", folder / "sub", policy=MissingPolicy.REMOVE)
    assert memory.forgotten == []
    assert {(Path(each.source).name, each.reason) for each in report.withdrawn} == {
        ("a.md", "neither UTF-8 nor another recognised encoding"),
        ("b.md", "empty"),
    }
    assert [Path(each.source).name for each in report.stale] == ["c.md"]
    assert memory.answered() == [str(folder / "sub" / "c.md")]


def test_what_is_kept_stays_in_the_answers_marked(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").unlink()
    (folder / "b.md").write_text("")
    ingested(memory, folder)
    assert len(memory.answered()) == 1
    assert counts(ingested(memory, folder, policy=MissingPolicy.KEEP))["stale"] == 2
    assert len(memory.answered()) == 3
    assert memory.states[str(folder / "a.md")].reason == "gone"


def test_a_withdrawn_entry_forgotten_elsewhere_is_not_an_error(folder: Path) -> None:
    class Forgetful(Memory):
        def forget(self, entry_id: str) -> ForgetReply:
            self.entries.pop(entry_id)
            return super().forget(entry_id)

    memory = Forgetful()
    ingested(memory, folder)
    (folder / "a.md").unlink()
    assert counts(ingested(memory, folder, policy=MissingPolicy.REMOVE))["removed"] == 1


class Settling(Event):
    """An event on which the second look's wait does something instead of taking its time."""

    def __init__(self, memory: Memory, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.memory = memory
        self.meanwhile = meanwhile
        self.waited: list[float | None] = []
        self.stale: list[set[str]] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        self.stale.append(self.memory.of_state("stale"))
        assert len(self.memory.answered()) == len(self.memory.entries)
        self.meanwhile()
        return self.is_set()


@pytest.mark.parametrize("text", ["", "\0" * 40])
def test_a_file_in_the_middle_of_a_save_gets_a_second_look(folder: Path, text: str) -> None:
    memory, file = Memory(), folder / "a.md"
    ingested(memory, folder)
    file.write_text(text)
    stop = Settling(memory, lambda: file.write_text("another text\n"))
    report = ingested(memory, folder, stop=stop, settle_s=60)
    assert (stop.waited, stop.stale) == ([60], [{str(file)}])
    assert counts(report) == {"changed": 1, "unchanged": 2, "returned": 1}
    assert (memory.states, memory.forgotten) == ({}, [])
    assert memory.entries[str(file)].content == "another text\n"


def test_a_file_that_is_still_gone_at_the_second_look_is_withdrawn(folder: Path) -> None:
    memory, file = Memory(), folder / "a.md"
    ingested(memory, folder)
    file.unlink()
    stop = Settling(memory, lambda: None)
    report = ingested(memory, folder, stop=stop, settle_s=60)
    assert counts(report) == {"unchanged": 2, "withdrawn": 1}
    assert memory.of_state("withdrawn") == {str(file)}
    assert ingested(memory, folder, stop=stop, settle_s=60).withdrawn[0].is_new is False
    assert len(stop.waited) == 1, "what is withdrawn needs no second look"


def test_what_has_been_gone_for_long_is_withdrawn_at_once(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").unlink()
    os.utime(folder, ns=(1, 1))
    assert counts(ingested(memory, folder, settle_s=60)) == {"unchanged": 2, "withdrawn": 1}


def test_an_interrupt_during_the_wait_leaves_the_file_in_the_answers(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").unlink()
    stop = Settling(memory, lambda: None)
    stop.meanwhile = stop.set
    assert ingested(memory, folder, stop=stop, settle_s=60).interrupted
    assert memory.states[str(folder / "a.md")].reason == CHANGING


def test_an_encoding_is_named(folder: Path) -> None:
    memory = Memory()
    (folder / "a.md").write_bytes("Съешь же ещё этих мягких булок".encode("cp1251"))
    assert counts(ingested(memory, folder)) == {"new": 2, "skipped": 1}
    assert counts(ingested(memory, folder, encoding="cp1251")) == {"new": 1, "touched": 2}
    assert str(memory.entries[str(folder / "a.md")].content).startswith("Съешь")


def test_one_file_that_fails_in_an_unforeseen_way_does_not_end_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory()
    ingested(memory, folder / "b.md")

    def fail(path: PurePath, data: bytes, **_: object) -> ExtractedText:
        if path.name == "b.md":
            raise RecursionError("too deep")
        return extract(path, data)

    monkeypatch.setattr("agentctx.ingest.delivery.extract", fail)
    (folder / "b.md").write_text("another text\n")
    report = ingested(memory, folder)
    assert counts(report) == {"new": 2, "stale": 1, "failed": 1}
    assert report.failed[0].problem == "RecursionError: too deep"


def test_new_parts_of_a_revoked_file_come_from_it(folder: Path) -> None:
    class Revoked(Memory):
        def iterate(self, **options: Unpack[ListOptions]) -> Iterator[EntryView]:
            return (replace(each, revocation=1) for each in super().iterate(**options))

    memory, file = Revoked(), folder / "a.md"
    ingested(memory, file)
    file.write_text("a line of some thirty letters\n" * 8_000)
    ingested(memory, file)
    sources = {key: entry.derived_from for key, entry in memory.entries.items()}
    assert sources == {str(file): None, f"{file}#2": [str(file)], f"{file}#3": [str(file)]}


def test_an_argument_that_is_gone_but_known_is_withdrawn(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "sub" / "c.md").unlink()
    (folder / "sub").rmdir()
    (folder / "a.md").unlink()
    report = ingested(memory, folder / "sub", folder / "a.md")
    assert counts(report) == {"withdrawn": 2}


def test_a_missing_argument_that_is_unknown_is_an_error_and_the_others_are_done(folder: Path) -> None:
    memory = Memory()
    report = ingested(memory, folder.parent / "nonsense", folder / "a.md")
    assert counts(report) == {"new": 1, "failed": 1}
    assert "no such file" in report.failed[0].problem
    assert not report.is_clean


def test_siblings_of_an_argument_are_untouched(folder: Path) -> None:
    memory = Memory()
    (folder / "a.md.bak").write_text("x")
    ingested(memory, folder)
    for name in ("a.md.bak", "b.md"):
        (folder / name).unlink()
    assert counts(ingested(memory, folder / "a.md")) == {"unchanged": 1}
    assert counts(ingested(memory, folder / "sub")) == {"unchanged": 1}


def test_arguments_that_overlap_are_taken_once(folder: Path) -> None:
    memory = Memory()
    assert counts(ingested(memory, folder, folder / "sub", folder / "a.md")) == {"new": 3}
    assert len(memory.saved) == 3


def test_labels_are_renewed_when_asked_for_and_kept_when_not(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder, labels=Labels(tags=("t",)))
    assert counts(ingested(memory, folder)) == {"unchanged": 3}
    assert counts(ingested(memory, folder, labels=Labels(tags=("u",)))) == {"touched": 3}
    (folder / "a.md").write_text("another text\n")
    ingested(memory, folder)
    assert {tuple(entry.tags or ()) for entry in memory.entries.values()} == {("u",)}


def test_a_dry_run_reports_the_same_and_changes_nothing(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    memory.saved.clear()
    (folder / "a.md").write_text("another text\n")
    (folder / "b.md").unlink()
    (folder / "d.md").write_text("new\n")
    (folder / "e.md").write_text("")
    before = dict(memory.entries)
    rehearsed = ingested(memory, folder, dry_run=True)
    assert (memory.entries, memory.saved, memory.forgotten) == (before, [], [])
    assert counts(rehearsed) == counts(ingested(memory, folder))


def test_an_interrupted_walk_withdraws_nothing(folder: Path) -> None:
    memory, stop = Memory(), Event()
    ingested(memory, folder)
    (folder / "a.md").unlink()
    stop.set()
    report = ingested(memory, folder, stop=stop, policy=MissingPolicy.REMOVE)
    assert report.interrupted
    assert counts(report) == {}
    for file in ("b.md", "sub/c.md"):
        (folder / file).unlink()
    assert counts(ingested(memory, folder, stop=stop, policy=MissingPolicy.REMOVE)) == {}
    assert len(memory.entries) == 3


class Unmounting(Memory):
    """Removes the folder while its entries are listed, or while its files are sent."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.at = ""

    def iterate(self, **options: Unpack[ListOptions]) -> Iterator[EntryView]:
        yield from super().iterate(**options)
        if self.at == "walk":
            self.at = ""
            self.folder.rename(self.folder.with_name("away"))

    def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[SaveResult | AgentctxError]:
        if self.at == "delivery":
            self.at = ""
            self.folder.rename(self.folder.with_name("away"))
            self.folder.mkdir()
        yield from super().save_all(requests)


@pytest.mark.parametrize("at", ["walk", "delivery"])
def test_a_folder_removed_meanwhile_loses_nothing(folder: Path, at: str) -> None:
    memory = Unmounting(folder)
    ingested(memory, folder)
    (folder / "a.md").write_text("another text\n")
    memory.at = at
    stop = Settling(memory, lambda: _put_back(folder))
    ingested(memory, folder, stop=stop, settle_s=60)
    assert (len(memory.answered()), memory.forgotten, memory.states) == (3, [], {})


def _put_back(folder: Path) -> None:
    if folder.exists():
        folder.rmdir()
    folder.with_name("away").rename(folder)


def test_a_file_replaced_by_an_editor_stays_watched(folder: Path) -> None:
    memory, task = Memory(), task_for(folder / "a.md")
    (folder / "new").write_text("another text\n")
    (folder / "new").replace(folder / "a.md")
    report = Report()
    run_pass(memory, task, report, IngestProgress(), Event())
    assert counts(report) == {"new": 1}


def test_scopes_touch_nothing_else(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    for name in ("a.md", "b.md", "sub/c.md"):
        (folder / name).unlink()
    (folder / "d.md").write_text("new\n")
    assert counts(ingested(memory, folder, scopes=[str(folder / "a.md")])) == {"withdrawn": 1}
    assert counts(ingested(memory, folder, scopes=[str(folder / "sub"), str(folder / "d.md")])) == {
        "withdrawn": 1,
        "new": 1,
    }


def test_a_file_that_became_a_folder(folder: Path) -> None:
    memory = Memory()
    ingested(memory, folder)
    (folder / "a.md").unlink()
    (folder / "a.md").mkdir()
    (folder / "a.md" / "x.md").write_text("x")
    report = ingested(memory, folder, scopes=[str(folder / "a.md")])
    assert counts(report) == {"withdrawn": 1, "new": 1}


def test_names_that_are_not_utf8_or_end_like_parts(tmp_path: Path) -> None:
    memory = Memory()
    for name in (b"caf\xe9.md", b"a\nb.md", b"a#2", b"a", "é".encode() * 120):
        (tmp_path / os.fsdecode(name)).write_text(repr(name))
    assert counts(ingested(memory, tmp_path)) == {"new": 5}
    assert counts(ingested(memory, tmp_path)) == {"unchanged": 5}
    (tmp_path / os.fsdecode(b"caf\xe9.md")).unlink()
    assert ingested(memory, tmp_path).withdrawn[0].source.endswith("caf\\xe9.md")


def test_absolute_paths_without_dots_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute(["a/../b", "b", "./b", "/"]) == (f"{tmp_path}/b", "/")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (IngestTarget("observation", "default", Labels()), "does not accept files"),
        (IngestTarget("manuals", "default", Labels(category="rule")), "no category"),
    ],
)
def test_invalid_arguments_are_refused_before_sending(target: IngestTarget, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        check(IngestTask(("/a",), WalkSelection(), target))
    check(IngestTask(("/a",), WalkSelection(), IngestTarget("manuals", "default", Labels(tags=("t",)))))


def test_a_report_knows_whether_all_was_done() -> None:
    assert Report(unchanged=3).is_clean
    failing = Report()
    failing.fail("/a", "denied")
    assert not failing.is_clean
    assert Report(buried=1, pending=0).is_clean is False


class Queue:
    """A queue that gets emptier at each look."""

    def __init__(self, *pending: int, buried: int = 0, state: str = "ok", stop: Event | None = None) -> None:
        self.left = list(pending)
        self.buried = buried
        self.stop = stop
        reply = status_reply()
        self.reply = replace(reply, provider=replace(reply.provider, state=state))  # type: ignore[arg-type]  # a state

    def status(self) -> StatusReply:
        return self.reply

    def queue(self) -> QueueReply:
        return queue_reply(self.left[0], self.buried)

    def drain(self, timeout_s: float = 1.0) -> QueueReply:
        if self.stop:
            self.stop.set()
        self.left.pop(0)
        return self.queue()


class Counting(IngestProgress):
    def __init__(self) -> None:
        self.total = self.counted = 0

    def begin(self, stage: str, files: int, size: int = 0) -> None:
        self.total = files

    def done(self, size: int = 0, files: int = 1) -> None:
        self.counted += files


def test_it_waits_until_nothing_is_pending() -> None:
    report, progress = Report(), Counting()
    wait_until_embedded(Queue(9, 5, 7, 0), report, progress, Event())
    assert (report.pending, report.buried, report.interrupted) == (0, 0, False)
    assert progress.total == 9
    assert progress.counted == 11, "what came in meanwhile is counted too"


def test_buried_jobs_are_reported_and_fail_the_run() -> None:
    report = Report()
    wait_until_embedded(Queue(1, 0, buried=2), report, IngestProgress(), Event())
    assert report.buried == 2
    assert not report.is_clean


def test_an_interrupt_ends_the_wait() -> None:
    report, stop = Report(), Event()
    wait_until_embedded(Queue(9, 5, 0, stop=stop), report, IngestProgress(), stop)
    assert (report.pending, report.interrupted) == (5, True)


def test_without_a_provider_there_is_nothing_to_wait_for() -> None:
    report = Report()
    wait_until_embedded(Queue(9, state="off"), report, IngestProgress(), Event())
    assert (report.pending, report.interrupted) == (9, False)
