import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from agentctx.errors import InvalidInput, StorageFull
from agentctx.ingest.delivery import NEVER, Delivery, FileMarks, Outcome, read
from agentctx.ingest.extract import NotIngestible
from agentctx.ingest.known import Labels
from agentctx.ingest.names import key_of
from agentctx.ingest.plan import FileCandidate, FileVerdict
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.unread import MissingPolicy
from agentctx.ingest.walk import FoundFile
from agentctx.wire import FileRecord, SaveRequest, SaveResult
from tests.ingest.memory import Memory
from tests.ingest.passes import counts, ingested, task_for

LINE = "a line of some thirty letters\n"
THREE_PARTS = LINE * 8_000


def file_of(memory: Memory, key: str) -> FileRecord:
    file = memory.entries[key].file
    assert file is not None
    return file


def test_an_entry_describes_its_file(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.md"
    path.write_text("# Tea\n\nAt four.\n")
    os.utime(path, ns=(1, 1_700_000_000_000_000_007))
    ingested(memory, path, labels=Labels(("t",), "rule", "me"))
    (entry,) = memory.entries.values()
    assert (entry.collection, entry.key, entry.source, entry.origin) == (
        "knowledge",
        str(path),
        str(path),
        "document",
    )
    assert (entry.content, entry.tags, entry.category, entry.agent) == (
        "# Tea\n\nAt four.\n",
        ["t"],
        "rule",
        "me",
    )
    assert entry.file == FileRecord(
        digest=sha256(path.read_bytes()).hexdigest(),
        size=16,
        modified=1_700_000_000_000_000_007,
        places=[[0, 1]],
        device=tmp_path.stat().st_dev,
        folder=tmp_path.stat().st_ino,
    )


def test_a_long_file_is_saved_in_parts_that_know_their_lines(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.txt"
    path.write_text(THREE_PARTS)
    report = ingested(memory, path)
    assert list(memory.entries) == [str(path), f"{path}#2", f"{path}#3"]
    assert "".join(str(entry.content) for entry in memory.entries.values()) == THREE_PARTS
    second = file_of(memory, f"{path}#2")
    first_lines = str(memory.entries[str(path)].content).count("\n")
    assert (second.part, second.parts, second.places) == (2, 3, [[0, first_lines + 1]])
    assert (counts(report), report.entries, report.bytes) == ({"new": 1}, 3, len(THREE_PARTS))


def test_surplus_parts_of_a_file_that_shrank_are_withdrawn_until_it_grows(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.txt"
    path.write_text(THREE_PARTS)
    ingested(memory, path)
    path.write_text(LINE)
    assert counts(ingested(memory, path)) == {"changed": 1}
    assert (len(memory.entries), memory.answered()) == (3, [str(path)])
    assert counts(ingested(memory, path)) == {"unchanged": 1}
    path.write_text(THREE_PARTS)
    assert counts(ingested(memory, path)) == {"changed": 1, "returned": 1}
    assert len(memory.answered()) == 3
    path.write_text(LINE)
    ingested(memory, path, policy=MissingPolicy.REMOVE)
    assert list(memory.entries) == [str(path)]


def test_a_refused_file_fails_alone_and_is_tried_again(tmp_path: Path) -> None:
    memory = Memory()
    for name in "abc":
        (tmp_path / name).write_text(name)
    memory.refusals[str(tmp_path / "b")] = InvalidInput("The daemon does not like it.", hint="Change it.")
    report = ingested(memory, tmp_path)
    assert counts(report) == {"new": 2, "failed": 1}
    assert (report.failed[0].problem, report.failed[0].hint) == ("The daemon does not like it.", "Change it.")
    memory.refusals.clear()
    assert counts(ingested(memory, tmp_path)) == {"new": 1, "unchanged": 2}


def test_one_refused_part_fails_its_file(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.txt"
    path.write_text(THREE_PARTS)
    memory.refusals[f"{path}#2"] = InvalidInput("no")
    assert counts(ingested(memory, path)) == {"failed": 1}
    memory.refusals.clear()
    assert counts(ingested(memory, path)) == {"changed": 1}


def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    memory = Memory(batch=2)
    for name in "abcdef":
        (tmp_path / name).write_text(name)
    memory.refusals[str(tmp_path / "d")] = StorageFull("no space left")
    with pytest.raises(StorageFull):
        ingested(memory, tmp_path)
    assert "f" not in {Path(key).name for key in memory.saved}


def test_files_without_text_are_skipped_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    report = ingested(Memory(), tmp_path)
    assert {Path(each.path).name for each in report.skipped} == {"empty.md", "picture.png"}
    assert report.skipped[0].reason == "empty"
    assert counts(report) == {"skipped": 2}


def test_a_known_file_that_lost_its_text_is_withdrawn(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.md"
    path.write_text("text")
    ingested(memory, path)
    path.write_text("")
    report = ingested(memory, path)
    assert counts(report) == {"withdrawn": 1, "skipped": 1}
    assert report.withdrawn[0].reason == "empty"


def test_a_file_that_cannot_be_read_is_reported_and_the_others_done(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    unreadable = FileCandidate(FoundFile("/proc/self/mem", 0, 0), "/proc/self/mem", None)
    vanished = FileCandidate(FoundFile(str(tmp_path / "gone"), 1, 1), str(tmp_path / "gone"), None)
    readable = FileCandidate(FoundFile(str(tmp_path / "a"), 1, 1), str(tmp_path / "a"), None)
    report, task = Report(), task_for(tmp_path)
    delivery = Delivery(Memory(), task, report, IngestProgress(), Event(), FileMarks(), NEVER)
    delivery.run([unreadable, vanished, readable])
    assert [(each.path, each.problem) for each in report.failed] == [("/proc/self/mem", "input/output error")]
    assert counts(report) == {"new": 1, "failed": 1}


def test_an_interrupted_run_ends_after_its_batch_and_continues_from_there(tmp_path: Path) -> None:
    stop = Event()

    class Interrupted(Memory):
        def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]:
            for outcome in super().save_all(requests):
                stop.set()
                yield outcome

    for number in range(10):
        (tmp_path / f"{number}").write_text("text")
    memory = Interrupted(batch=3)
    report = ingested(memory, tmp_path, stop=stop)
    assert report.interrupted
    assert counts(report) == {"new": len(memory.entries)}
    assert 3 <= len(memory.entries) < 10
    done = len(memory.entries)
    stop.clear()
    rest = Memory()
    rest.entries = memory.entries
    assert counts(ingested(rest, tmp_path)) == {"new": 10 - done, "unchanged": done}


def test_a_file_with_a_part_missing_is_saved_again(tmp_path: Path) -> None:
    memory, path = Memory(), tmp_path / "a.txt"
    path.write_text(THREE_PARTS)
    ingested(memory, path)
    del memory.entries[key_of(str(path), 2)]
    report = ingested(memory, path)
    assert report.saved[FileVerdict.CHANGED] == [str(path)]
    assert len(memory.entries) == 3


def test_secrets_that_were_cut_out_are_reported(tmp_path: Path) -> None:
    class Cutting(Memory):
        def save_all(self, requests: Iterable[SaveRequest]) -> Iterator[Outcome]:
            for outcome in super().save_all(requests):
                assert isinstance(outcome, SaveResult)
                yield replace(outcome, redacted=["aws_access_key"])

    (tmp_path / "a").write_text("text")
    (remark,) = ingested(Cutting(), tmp_path).remarks
    assert remark.path == str(tmp_path / "a")
    assert "aws_access_key" in remark.remark


def found(path: Path, *, is_named: bool = False) -> FoundFile:
    status = path.stat()
    return FoundFile(str(path), status.st_size, status.st_mtime_ns, is_named)


def test_bytes_digest_and_time(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"text\n" * 5_000)
    os.utime(file, ns=(1, 123_456_789))
    contents = read(found(file), 100_000)
    assert contents.data == b"text\n" * 5_000
    assert contents.digest == sha256(contents.data).hexdigest()
    assert (contents.size, contents.modified) == (25_000, 123_456_789)


def test_a_file_that_grew_meanwhile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("x" * 101)
    with pytest.raises(NotIngestible, match="larger than 100 bytes"):
        read(found(file), 100)


def test_a_large_binary_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    with file.open("wb") as stream:
        stream.write(b"\x7fELF\0\0\0\0" * 2_000)
        stream.truncate(1 << 40)
    with pytest.raises(NotIngestible, match="binary"):
        read(found(file), 1 << 50)


def test_a_link_that_replaced_a_file_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("secret")
    link = tmp_path / "b.md"
    link.symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        read(found(link), 100)
    assert read(found(link, is_named=True), 100).data == b"secret"


def test_a_pipe_that_took_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(NotIngestible, match="not a regular file"):
        read(found(tmp_path / "a.md"), 100)
