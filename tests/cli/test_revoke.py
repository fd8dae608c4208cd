"""`agentctx revoke` and `release`: their requests and their output."""

from dataclasses import replace

import pytest

from agentctx.wire import ReleaseReply, RevokeReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon

REVOKED = RevokeReply(revocation=7, entries=1_200, derived=3, held_before=0, criteria={"agent": "bad"})
COUNTED = RevokeReply(revocation=None, entries=2, derived=1, held_before=1, dry_run=True)


def named(daemon: StubDaemon) -> dict[str, object]:
    return {name: value for name, value in daemon.seen[-1].body.items() if value not in (None, False)}


def test_a_dry_run_only_counts(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/revocations", (200, COUNTED))
    assert agentctx("revoke", "--agent", "bad", "--dry-run", "--yes") == 0
    assert (
        agentctx.out == "would be revoked  2 of the source  1 derived from them  1 of them already hidden\n"
    )
    assert [seen.body["dry_run"] for seen in daemon.seen] == [True]


def test_a_script_must_pass_yes(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/revocations", (200, COUNTED))
    assert agentctx("revoke", "--agent", "bad") == 2
    assert "Pass --yes" in agentctx.err
    assert named(daemon) == {"agent": "bad", "dry_run": True}


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


def test_yes_revokes_and_prints_the_undo_command(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/revocations", (200, REVOKED))
    options = ("--session", "s", "--source", "/docs/a", "--origin", "document", "--trust", "external")
    more = ("--uid", "1001", "--namespace", "team", "--since", "7d", "--until", "1d", "--yes")
    assert agentctx("revoke", *options, *more) == 0
    assert agentctx.out == "revoked  1,200 of the source  3 derived from them\n"
    assert "agentctx revoke --undo 7 undoes it" in agentctx.err
    assert named(daemon) == {
        "session": "s",
        "source": "/docs/a",
        "origin": "document",
        "trust": "external",
        "principal": 1001,
        "namespace": "team",
        "since": "7d",
        "until": "1d",
    }


def test_forget_cannot_be_undone(agentctx: Agentctx, daemon: StubDaemon) -> None:
    forgotten = RevokeReply(revocation=7, entries=2, derived=1, held_before=0, forget=True)
    daemon.answer("POST", "/v1/revocations", (200, forgotten))
    assert agentctx("revoke", "--agent", "bad", "--forget", "-y") == 0
    assert agentctx.out == "forgotten  2 of the source  1 derived from them\n"
    assert "--undo" not in agentctx.err
    assert named(daemon) == {"agent": "bad", "forget": True}


def test_a_revocation_is_undone_by_its_number(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("DELETE", "/v1/revocations/7", (200, ReleaseReply(released=1_203)))
    assert agentctx("revoke", "--undo", "7") == 0
    assert agentctx.out == "released  1,203\n"
    assert agentctx("revoke", "--undo", "7", "--json") == 0
    assert agentctx.json["released"] == 1203


def test_entries_left_in_quarantine_are_reported_with_the_reason(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    partly = ReleaseReply(released=0, still_quarantined=3, revocations=[8])
    daemon.answer("DELETE", "/v1/revocations/7", (200, partly))
    assert agentctx("revoke", "--undo", "7") == 0
    assert agentctx.out == "released  0  3 stay in quarantine, by revocation 8\n"
    assert "agentctx revoke --undo 8" in agentctx.err
    daemon.answer("DELETE", "/v1/revocations/7", (200, ReleaseReply(released=2, still_quarantined=1)))
    assert agentctx("revoke", "--undo", "7") == 0
    assert agentctx.out == "released  2  1 stay in quarantine, since they were flagged\n"


@pytest.mark.parametrize("other", [("--agent", "bad"), ("--forget",), ("--uid", "0")])
def test_undo_accepts_no_other_option(agentctx: Agentctx, daemon: StubDaemon, other: tuple[str, ...]) -> None:
    assert agentctx("revoke", "--undo", "7", *other) == 2
    assert "--undo: undoes a whole revocation" in agentctx.err
    assert daemon.seen == []


def test_no_criterion_is_a_usage_error(agentctx: Agentctx, daemon: StubDaemon) -> None:
    assert agentctx("revoke", "--yes") == 2
    assert agentctx.out == ""
    assert "this would revoke everything" in agentctx.err
    assert daemon.seen == []


@pytest.mark.parametrize("command", [("revoke", "--forget"), ("undo", "--since", "1h")])
@pytest.mark.parametrize("name", ["--agent", "--session", "--namespace"])
@pytest.mark.parametrize("blank", ["", " \t"])
def test_an_empty_criterion_is_a_usage_error(
    agentctx: Agentctx, daemon: StubDaemon, command: tuple[str, ...], name: str, blank: str
) -> None:
    assert agentctx(*command, name, blank, "--origin", "agent", "--yes") == 2
    assert ("is not valid" if name == "--namespace" else f"{name}: is empty") in agentctx.err
    assert daemon.seen == []


@pytest.mark.parametrize("option", [("--origin", "god"), ("--trust", "most"), ("--uid", "me")])
def test_an_invalid_criterion_is_not_sent(
    agentctx: Agentctx, daemon: StubDaemon, option: tuple[str, str]
) -> None:
    assert agentctx("revoke", *option) == 2
    assert daemon.seen == []


def test_json_has_the_documented_names(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/revocations", (200, REVOKED))
    assert agentctx("revoke", "--agent", "bad", "--yes", "--json") == 0
    assert agentctx.json == {
        "revocation": 7,
        "entries": 1200,
        "derived": 3,
        "held_before": 0,
        "criteria": {"agent": "bad"},
        "forget": False,
        "dry_run": False,
        "backups": 0,
        "backups_until": None,
    }


def test_an_entry_is_released(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", f"/v1/entries/{ID}/release", (200, ReleaseReply(released=1)))
    assert agentctx("release", ID) == 0
    assert agentctx.out == f"released  {ID}\n"


def test_only_quarantined_entries_can_be_released(agentctx: Agentctx, daemon: StubDaemon) -> None:
    message = f"Entry {ID!r} is not in quarantine."
    daemon.fail("POST", f"/v1/entries/{ID}/release", 404, "not_found", message)
    assert agentctx("release", ID) == 1
    assert message in agentctx.err


def test_forgetting_a_source_names_the_backups_that_hold_it(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = replace(REVOKED, forget=True, backups=2, backups_until="2026-12-01")
    daemon.answer("POST", "/v1/revocations", (200, reply))
    assert agentctx("revoke", "--agent", "bad", "--forget", "--yes") == 0
    assert "2 automatic backups may hold it until about 2026-12-01" in agentctx.err
