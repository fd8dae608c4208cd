from dataclasses import asdict, replace
from typing import Any, get_args

import pytest

from agentctx import __version__
from agentctx.cli.status import status_lines
from agentctx.config.commit import build_name, own_commit
from agentctx.wire import BackupStatus, CalibrationState, ProviderCost, ProviderStatus
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import StubDaemon, status_reply


def test_status_is_aligned_and_json_is_the_reply(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = status_reply(version=__version__, commit=own_commit())
    daemon.answer("GET", "/v1/status", (200, reply))

    assert agentctx("status") == 0
    assert agentctx.out.splitlines() == [
        f"daemon    {build_name(__version__, own_commit())}, pid 4711, up 62 min",
        "socket    /run/agentctx/agentctx.sock",
        "entries   6 knowledge, 3 learning",
        "chunks    9, 8 vectors",
        "provider  embedded all-MiniLM-L6-v2, 384 dimensions, ok",
        "queue     3 pending, 1 buried, oldest 12 s",
        "database  /var/lib/agentctx/agentctx.db",
        "          SQLite 3.53.4, 12 commits",
        "          1.2 MB, WAL 4.1 kB",
        "process   120.0 MB of memory, 1.2 s of CPU, 0.3 s of it for embedding",
    ]
    assert agentctx("status", "--json") == 0
    assert agentctx.json == asdict(reply)


def test_a_daemon_of_another_build_is_told() -> None:
    assert status_lines(status_reply(commit="a1"))[:2] == [
        "daemon    0.1.0 (a1), pid 4711, up 62 min",
        f"          this command is {build_name(__version__, own_commit())}: restart the daemon",
    ]


def test_status_explains_a_degraded_provider_and_shows_an_empty_daemon() -> None:
    provider = ProviderStatus(id="openai", model="", dimension=0, state="degraded", reason="401")

    lines = status_lines(status_reply(provider=provider, entries={}))

    assert "provider  openai, degraded: 401" in lines
    assert "entries   none" in lines


def test_the_reason_for_refused_saves_is_reported() -> None:
    database = replace(status_reply().database, fault="The disk has failed.")

    lines = status_lines(status_reply(database=database))

    assert "          nothing can be saved now: The disk has failed." in lines


@pytest.mark.parametrize(
    ("until", "told"), [("2026-12-01", "until about 2026-12-01"), (None, "until somebody removes them")]
)
def test_what_backups_hold_is_reported(until: str | None, told: str) -> None:
    lines = status_lines(status_reply(backups=BackupStatus(backups=2, backups_until=until)))
    assert f"backups   2, which may hold expired and forgotten text {told}" in lines


def test_durability_risks_are_reported() -> None:
    database = replace(status_reply().database, warnings=["fsync is off: …", "1 standby is …"])

    lines = status_lines(status_reply(database=database))

    assert "          warning: fsync is off: …" in lines
    assert "          warning: 1 standby is …" in lines


def _costing(**changes: object) -> list[str]:
    fields: dict[str, Any] = {
        "usd_per_million_tokens": 0.02,
        "price_source": "published",
        "usd_per_day": 0.0,
        "confirm_usd": 1.0,
        "tokens_today": 12_345,
        "usd_today": 0.25,
        "cap_reached": False,
    }
    cost = ProviderCost(**{**fields, **changes})
    provider = ProviderStatus(id="openai", model="m", dimension=3, state="ok", reason=None, cost=cost)
    return [line for line in status_lines(status_reply(provider=provider)) if line.startswith("cost")]


@pytest.mark.parametrize("state", get_args(CalibrationState))
def test_status_names_the_relevance_method(state: CalibrationState) -> None:
    provider = ProviderStatus(id="fake", model="m", dimension=3, state="ok", reason=None, calibration=state)
    (line,) = (line for line in status_lines(status_reply(provider=provider)) if line.startswith("relevance"))
    assert ("decided by words" in line) is (state != "ready")


def test_spending_has_a_line() -> None:
    assert _costing() == ["cost      $0.25 today, 12,345 tokens"]
    assert _costing(usd_per_day=2.0) == ["cost      $0.25 of $2.00 today, 12,345 tokens"]
    assert _costing(usd_per_million_tokens=None) == [
        "cost      12,345 tokens today, no published price known"
    ]
    assert _costing(usd_per_day=0.25, cap_reached=True) == [
        "cost      $0.25 of $0.25 today, 12,345 tokens; the cap is reached, embedding pauses until 00:00 UTC"
    ]
