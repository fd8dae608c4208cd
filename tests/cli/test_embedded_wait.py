from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest

from agentctx.cli import save as save_command
from agentctx.cli.embedded_wait import until_embedded
from agentctx.client.sync_client import Client
from agentctx.errors import DeadlineExceeded
from tests.client.stub_daemon import ID, StubDaemon, entry, save_result

Agentctx = Callable[..., int]
PATH = f"/v1/entries/{ID}"
PENDING, DONE = (200, entry(embedding="pending")), (200, entry(embedding="done"))


@pytest.fixture
def client(daemon: StubDaemon) -> Iterator[Client]:
    with Client(daemon.socket) as client:
        yield client


def test_what_is_embedded_already_is_not_asked_for(client: Client, daemon: StubDaemon) -> None:
    for state in ("done", "off"):
        assert until_embedded(client, save_result(embedding=state)).embedding == state
    assert not daemon.seen


def test_it_asks_with_pauses_until_nothing_is_owed(client: Client, daemon: StubDaemon) -> None:
    daemon.answer("GET", PATH, PENDING, PENDING, DONE)
    pauses: list[float] = []
    result = until_embedded(client, save_result(version=3), pause=pauses.append)
    assert (result.version, result.embedding) == (3, "done")
    assert len(daemon.seen) == 3
    assert len(pauses) == 2
    assert min(pauses) > 0


def test_after_the_limit_it_is_an_error_that_says_where_to_look(client: Client, daemon: StubDaemon) -> None:
    daemon.answer("GET", PATH, PENDING)
    seconds = count()
    with pytest.raises(DeadlineExceeded, match="after 5 s") as caught:
        until_embedded(client, save_result(), limit_s=5, clock=lambda: next(seconds), pause=lambda _: None)
    assert "`agentctx queue status`" in caught.value.hint
    assert len(daemon.seen) == 5


SAVE = ("save", "observation", "--session", "s", "text", "--wait")
EDIT = ("edit", ID, "--content", "text", "--wait")


@pytest.fixture
def saving(daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> StubDaemon:
    """A daemon that has not embedded a save by the time it answers, and a wait that takes no time."""
    daemon.answer("POST", "/v1/entries", (201, save_result()))
    daemon.answer("PATCH", PATH, (200, save_result()))
    seconds = count()
    in_no_time = partial(until_embedded, clock=lambda: next(seconds), pause=lambda _: None)
    monkeypatch.setattr(save_command, "until_embedded", in_no_time)
    return daemon


@pytest.mark.parametrize("command", [SAVE, EDIT])
def test_wait_returns_when_it_is_embedded(
    agentctx: Agentctx, saving: StubDaemon, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    saving.answer("GET", PATH, PENDING, DONE)
    assert agentctx(*command) == 0
    assert capsys.readouterr().out == f"saved  {ID}  version 1  embedding done\n"


@pytest.mark.parametrize("command", [SAVE, EDIT])
def test_a_wait_in_vain_is_1_and_the_save_is_acknowledged(
    agentctx: Agentctx, saving: StubDaemon, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    saving.answer("GET", PATH, PENDING)
    assert agentctx(*command) == 1
    printed = capsys.readouterr()
    assert printed.out == f"saved  {ID}  version 1  embedding pending\n"
    assert "after 300 s" in printed.err
    assert "hint: Nothing is lost. `agentctx queue status`" in printed.err


def test_without_wait_nothing_is_asked(agentctx: Agentctx, saving: StubDaemon) -> None:
    assert agentctx(*SAVE[:-1]) == 0
    assert [seen.method for seen in saving.seen] == ["POST"]
