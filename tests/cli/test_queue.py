import json
from collections.abc import Callable

import pytest

from agentctx.wire import RetryReply
from tests.client.stub_daemon import ID, StubDaemon, queue_reply

Agentctx = Callable[..., int]


def test_status_shows_what_was_given_up_and_why(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply()))

    assert agentctx("queue", "status") == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "pending  3",
        "buried   1",
        "oldest   12 s",
        "",
        "JOB  ENTRY                                 COLLECTION  ATTEMPTS  REASON",
        f"  0  {ID}  knowledge          2  the text is empty",
    ]
    assert "agentctx queue retry" in captured.err


def test_json_of_the_status_has_the_promised_names(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply()))

    assert agentctx("queue", "status", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "pending": 3,
        "buried": 1,
        "oldest_seconds": 12.5,
        "buried_jobs": [
            {
                "job": 0,
                "entry": ID,
                "collection": "knowledge",
                "attempts": 2,
                "reason": "the text is empty",
            }
        ],
    }


def test_an_empty_queue_is_three_lines(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("GET", "/v1/queue", (200, queue_reply(0, 0)))

    assert agentctx("queue", "status") == 0
    assert capsys.readouterr() == ("pending  0\nburied   0\noldest   12 s\n", "")


def test_retry_tells_how_many(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answer("POST", "/v1/queue/retry", (200, RetryReply(retried=4)))

    assert agentctx("queue", "retry") == 0
    assert capsys.readouterr().out == "retried  4\n"
    assert agentctx("queue", "retry", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"retried": 4}
