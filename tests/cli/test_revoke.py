"""`agentctx revoke` and `release`: their requests and their output."""

from dataclasses import replace

import pytest

from agentctx.wire import RevokeReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import StubDaemon

REVOKED = RevokeReply(revocation=7, entries=1_200, derived=3, held_before=0, criteria={"agent": "bad"})
COUNTED = RevokeReply(revocation=None, entries=2, derived=1, held_before=1, dry_run=True)


@pytest.mark.parametrize(("typed", "code", "dry_runs"), [("y\n", 0, [True, False]), ("n\n", 1, [True])])
def test_on_a_terminal_it_counts_and_asks(
    agentctx: Agentctx,
    daemon: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    code: int,
    dry_runs: list[bool],
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("agentctx.cli.consent.can_prompt", lambda: True)
    daemon.answer("POST", "/v1/revocations", (200, COUNTED), (200, REVOKED))
    assert agentctx("revoke", "--agent", "bad") == code
    assert "Revoke 2 entries of the source and 1 derived from them?" in agentctx.err
    assert [seen.body["dry_run"] for seen in daemon.seen] == dry_runs


def test_forgetting_a_source_names_the_backups_that_hold_it(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = replace(REVOKED, forget=True, backups=2, backups_until="2026-12-01")
    daemon.answer("POST", "/v1/revocations", (200, reply))
    assert agentctx("revoke", "--agent", "bad", "--forget", "--yes") == 0
    assert "2 automatic backups may hold it until about 2026-12-01" in agentctx.err
