from collections.abc import Iterator

import pytest

from agentctx.cli.queue import DrainProgress, drain_queue
from agentctx.client.sync_client import Client
from agentctx.wire import ProviderStatus
from tests.cli.conftest import Agentctx
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.client.stub_daemon import StubDaemon, queue_reply, status_reply

DRAIN = ("POST", "/v1/queue/drain")


@pytest.fixture
def queueing(daemon: StubDaemon) -> StubDaemon:
    daemon.answer("GET", "/v1/queue", (200, queue_reply(9, 0)))
    daemon.answer("GET", "/v1/status", (200, status_reply()))
    daemon.answer(*DRAIN, (200, queue_reply(4, 0)), (200, queue_reply(0, 0)))
    return daemon


def test_a_timeout_exits_1_and_reports_the_provider_problem(agentctx: Agentctx, queueing: StubDaemon) -> None:
    provider = ProviderStatus(id="openai", model="m", dimension=3, state="degraded", reason="no key")
    queueing.answer("GET", "/v1/status", (200, status_reply(provider=provider)))
    queueing.answer(*DRAIN, (200, queue_reply(4, 0)))
    assert agentctx("queue", "drain", "--timeout", "0.1", "--json") == 1
    assert agentctx.json["pending"] == 4
    assert "4 embeddings are still pending after 0.1 s; the provider is degraded: no key." in agentctx.err


def test_it_stops_at_the_deadline_and_never_asks_for_longer(queueing: StubDaemon) -> None:
    def seconds() -> Iterator[float]:
        yield from (0.0, 5.0, 5.0, 13.0, 13.0, 15.0)

    queueing.answer(*DRAIN, (200, queue_reply(7, 0)), (200, queue_reply(12, 0)))
    reported: list[DrainProgress] = []
    clock = seconds()
    with Client(queueing.socket) as client:
        reply = drain_queue(client, 15.0, reported.append, lambda: next(clock))
    assert reply.pending == 12
    assert reported == [DrainProgress(9, 9, 5.0), DrainProgress(9, 7, 13.0)]
    assert [seen.body["timeout_s"] for seen in queueing.seen if seen.path == DRAIN[1]] == [10.0, 2.0]


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (DrainProgress(9, 9, 3.0), "9 left"),
        (DrainProgress(90, 30, 2.0), "30 left, 30.0/s, about 1.0 s to go"),
        (DrainProgress(9, 1, 0.1), "1 left"),
    ],
)
def test_progress_is_readable(progress: DrainProgress, text: str) -> None:
    assert str(progress) == text


def test_on_a_terminal_the_progress_is_one_line_that_vanishes(queueing: StubDaemon) -> None:
    with PseudoTerminal(["--socket", str(queueing.socket), "queue", "drain"]) as terminal:
        code, output = terminal.finish()
    assert code == 0
    assert "4 left" in output
    assert output.rpartition("\x1b[2K")[2] == "pending  0\r\nburied   0\r\n"
