"""Revoking, undoing and releasing with both clients."""

import pytest

from agentctx.errors import DaemonUnreachable, InvalidInput, NotFound
from agentctx.wire import ReleaseReply, RevokeReply
from tests.client.conftest import Do
from tests.client.stub_daemon import ID, StubDaemon

REVOKED = RevokeReply(revocation=7, entries=2, derived=1, held_before=1, criteria={"agent": "bad"})


async def test_a_source_is_sent_as_given_and_for_every_namespace(do: Do, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/revocations", (200, REVOKED))
    assert await do("revoke", agent="bad", since="7d", forget=True) == REVOKED
    sent = daemon.seen[-1].body
    assert {name: value for name, value in sent.items() if value not in (None, False)} == {
        "agent": "bad",
        "since": "7d",
        "forget": True,
    }, "the client's namespace is not a criterion"


async def test_undo_and_release_return_the_number_released(do: Do, daemon: StubDaemon) -> None:
    daemon.answer("DELETE", "/v1/revocations/7", (200, ReleaseReply(released=3)))
    daemon.answer("POST", f"/v1/entries/{ID}/release", (200, ReleaseReply(released=1)))
    assert (await do("undo_revocation", 7)).released == 3
    assert (await do("release", ID)).released == 1
    assert [(seen.method, seen.path) for seen in daemon.seen] == [
        ("DELETE", "/v1/revocations/7"),
        ("POST", f"/v1/entries/{ID}/release"),
    ]


async def test_refusals_are_raised_as_their_classes(do: Do, daemon: StubDaemon) -> None:
    daemon.fail("POST", "/v1/revocations", 400, "invalid_input", "This would revoke everything.")
    daemon.fail("DELETE", "/v1/revocations/7", 404, "not_found", "there is no revocation 7")
    with pytest.raises(InvalidInput, match="everything"):
        await do("revoke")
    with pytest.raises(NotFound, match="no revocation 7"):
        await do("undo_revocation", 7)
    with pytest.raises(NotFound):
        await do("release", "nothing")


@pytest.mark.parametrize(("name", "args"), [("revoke", ()), ("undo_revocation", (7,)), ("release", (ID,))])
async def test_none_of_these_calls_is_repeated(
    do: Do, daemon: StubDaemon, name: str, args: tuple[object, ...]
) -> None:
    daemon.dropping = 1
    with pytest.raises(DaemonUnreachable):
        await do(name, *args)
    assert len(daemon.seen) == 1
