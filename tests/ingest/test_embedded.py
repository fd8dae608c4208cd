from dataclasses import replace
from threading import Event

from agentctx.ingest.embedded import wait_until_embedded
from agentctx.ingest.progress import Silence
from agentctx.ingest.report import Report
from agentctx.wire import QueueReply, StatusReply
from tests.client.stub_daemon import queue_reply, status_reply


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


class Counting(Silence):
    def __init__(self) -> None:
        self.total = self.counted = 0

    def begin(self, stage: str, files: int, size: int = 0) -> None:
        self.total = files

    def done(self, size: int = 0, files: int = 1) -> None:
        self.counted += files


def test_it_waits_until_nothing_is_owed() -> None:
    report, progress = Report(), Counting()
    wait_until_embedded(Queue(9, 5, 7, 0), report, progress, Event())
    assert (report.pending, report.buried, report.interrupted) == (0, 0, False)
    assert progress.total == 9
    assert progress.counted == 11, "what came in meanwhile is counted too"


def test_what_was_buried_is_reported_and_not_clean() -> None:
    report = Report()
    wait_until_embedded(Queue(1, 0, buried=2), report, Silence(), Event())
    assert report.buried == 2
    assert not report.is_clean


def test_an_interrupt_ends_the_wait() -> None:
    report, stop = Report(), Event()
    wait_until_embedded(Queue(9, 5, 0, stop=stop), report, Silence(), stop)
    assert (report.pending, report.interrupted) == (5, True)


def test_without_a_provider_there_is_nothing_to_wait_for() -> None:
    report = Report()
    wait_until_embedded(Queue(9, state="off"), report, Silence(), Event())
    assert (report.pending, report.interrupted) == (9, False)
