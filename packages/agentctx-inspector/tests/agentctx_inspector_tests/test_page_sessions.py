from __future__ import annotations

import pytest

from agentctx.service.base import Peer
from agentctx_inspector.page_sessions import IDLE_S, LINK_S, MAX_KEPT, PageSessions

ANN, BOB = 1001, 1002
PEER = Peer(pid=1, uid=ANN, gid=ANN)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> PageSessions:
    return PageSessions(clock)


def opened(sessions: PageSessions, browser: int | None = ANN) -> str:
    session = sessions.open(sessions.new_link(PEER), browser)
    assert session is not None
    return session


def test_a_link_is_good_once(sessions: PageSessions) -> None:
    link = sessions.new_link(PEER)
    assert sessions.open(link, ANN) is not None
    assert sessions.open(link, ANN) is None


@pytest.mark.parametrize(("after", "is_good"), [(LINK_S - 0.1, True), (LINK_S, False)])
def test_a_link_is_good_for_a_minute(
    after: float, is_good: bool, sessions: PageSessions, clock: Clock
) -> None:
    link = sessions.new_link(PEER)
    clock.now = after
    assert (sessions.open(link, ANN) is not None) == is_good


def test_nobody_guesses_a_link(sessions: PageSessions) -> None:
    sessions.new_link(PEER)
    assert sessions.open("", ANN) is None
    assert sessions.open("guessed", ANN) is None


def test_a_link_of_another_user_opens_nothing_and_stays_good(sessions: PageSessions) -> None:
    link = sessions.new_link(PEER)
    assert sessions.open(link, BOB) is None
    assert sessions.open(link, ANN) is not None


def test_the_user_behind_sudo_opens_a_link_of_root_and_keeps_the_session(sessions: PageSessions) -> None:
    root = Peer(pid=1, uid=0, gid=0)
    session = sessions.open(sessions.new_link(root), ANN)
    assert session is not None
    assert sessions.peer_of(session, ANN) == root
    assert sessions.peer_of(session, BOB) is None


def test_a_session_is_that_of_who_asked_for_the_link(sessions: PageSessions) -> None:
    assert sessions.peer_of(opened(sessions), ANN) == PEER


def test_a_cookie_that_another_user_took_is_useless(sessions: PageSessions) -> None:
    session = opened(sessions)
    assert sessions.peer_of(session, BOB) is None
    assert sessions.peer_of(session, ANN) == PEER


def test_a_session_ends_after_an_hour_without_use(sessions: PageSessions, clock: Clock) -> None:
    session = opened(sessions)
    clock.now = IDLE_S - 1
    assert sessions.peer_of(session, ANN) == PEER
    clock.now += IDLE_S - 1
    assert sessions.peer_of(session, ANN) == PEER
    clock.now += IDLE_S
    assert sessions.peer_of(session, ANN) is None


def test_a_link_and_then_its_session_keep_the_port_open(sessions: PageSessions, clock: Clock) -> None:
    assert sessions.idle_in() == 0
    link = sessions.new_link(PEER)
    assert sessions.idle_in() == LINK_S
    clock.now = 10
    sessions.open(link, ANN)
    assert sessions.idle_in() == IDLE_S
    clock.now += IDLE_S
    assert sessions.idle_in() == 0


def test_the_oldest_session_goes_when_there_are_too_many(sessions: PageSessions) -> None:
    first = opened(sessions)
    others = [opened(sessions) for _ in range(MAX_KEPT)]
    assert sessions.peer_of(first, ANN) is None
    assert all(sessions.peer_of(each, ANN) == PEER for each in others)
