from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from agentctx.cli import save as save_command
from agentctx.cli.save import wait_until_searchable
from agentctx.client.sync_client import Client
from agentctx.errors import DeadlineExceeded
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import ID, StubDaemon, entry, save_result


@pytest.fixture(autouse=True)
def saves(daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/entries", (201, save_result()))


def test_a_text_of_two_lines_without_its_kind_is_not_repeated(agentctx: Agentctx) -> None:
    assert agentctx("save", "two\nlines") == 2
    assert "Say what kind of memory it is: agentctx save knowledge --key NAME TEXT." in agentctx.err


def test_an_argument_that_is_not_utf_8_is_refused(agentctx: Agentctx) -> None:
    assert agentctx("save", "knowledge", "--key", "k", "caf\udce9") == 2
    assert "lone surrogate at position" in agentctx.err


def test_a_dropped_connection_is_retried_silently(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.dropping = 1

    assert agentctx("save", "knowledge", "--key", "k", "text") == 0

    first, second = (seen.headers["idempotency-key"] for seen in daemon.seen)
    assert first == second
    assert agentctx.err == ""


PATH = f"/v1/entries/{ID}"
PENDING, DONE = (200, entry(embedding="pending")), (200, entry(embedding="done"))


@pytest.fixture
def client(daemon: StubDaemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


def test_an_embedded_save_is_not_polled(client: Client, daemon: StubDaemon) -> None:
    for state in ("done", "off"):
        assert wait_until_searchable(client, save_result(embedding=state)).embedding == state
    assert not daemon.seen


def test_it_polls_with_pauses_until_embedded(client: Client, daemon: StubDaemon) -> None:
    daemon.answer("GET", PATH, PENDING, PENDING, DONE)
    pauses: list[float] = []
    result = wait_until_searchable(client, save_result(version=3), pause=pauses.append)
    assert (result.version, result.embedding) == (3, "done")
    assert len(daemon.seen) == 3
    assert len(pauses) == 2
    assert min(pauses) > 0


def test_a_timeout_is_an_error_that_says_where_to_look(client: Client, daemon: StubDaemon) -> None:
    daemon.answer("GET", PATH, PENDING)
    seconds = count()
    with pytest.raises(DeadlineExceeded, match="after 5 s") as caught:
        wait_until_searchable(
            client, save_result(), limit_s=5, clock=lambda: next(seconds), pause=lambda _: None
        )
    assert "`agentctx queue status`" in caught.value.hint
    assert len(daemon.seen) == 5


SAVE = ("save", "observation", "--session", "s", "text", "--wait")
EDIT = ("edit", ID, "--content", "text", "--wait")


@pytest.fixture
def saving(daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> StubDaemon:
    """A daemon that replies before it has embedded a save, and a wait that takes no time."""
    daemon.answer("POST", "/v1/entries", (201, save_result()))
    daemon.answer("PATCH", PATH, (200, save_result()))
    seconds = count()
    in_no_time = partial(wait_until_searchable, clock=lambda: next(seconds), pause=lambda _: None)
    monkeypatch.setattr(save_command, "wait_until_searchable", in_no_time)
    return daemon


@pytest.mark.parametrize("command", [SAVE, EDIT])
def test_a_timed_out_wait_exits_1_and_acknowledges_the_save(
    agentctx: Agentctx, saving: StubDaemon, command: tuple[str, ...]
) -> None:
    saving.answer("GET", PATH, PENDING)
    assert agentctx(*command) == 1
    assert agentctx.out == f"saved  {ID}  version 1  embedding pending\n"
    assert "after 300 s" in agentctx.err
    assert "hint: Nothing is lost. `agentctx queue status`" in agentctx.err
