"""`agentctx reembed` against a stub daemon."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agentctx.cli.reembed import reembed_line, reembed_lines
from agentctx.wire import ModelComparison, ModelSpace, ReembedCost, ReembedReply
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import StubDaemon

OLD = ModelSpace(
    space=1, provider="embedded", model="mini", dimension=384, chunks=100, pending=0, buried=0, reason=None
)
NEW = replace(OLD, space=2, provider="openai", model="large", dimension=3072, pending=19, buried=1)
BUILDING = ReembedReply(stage="building", answering=OLD, beside=NEW)
READY = replace(
    BUILDING,
    stage="ready",
    beside=replace(NEW, pending=0),
    comparison=ModelComparison(sampled=50, self_retrieval=0.98, overlap=0.61),
    advice="switch",
)
HELD = replace(BUILDING, stage="held", cost=ReembedCost(tokens=1_000_000, usd=12.0, confirm_usd=1.0))


def test_status_shows_the_active_model_and_the_others_progress() -> None:
    lines = "\n".join(reembed_lines(BUILDING))
    assert "embedded mini" in lines
    assert "80 of 100, 1 buried" in lines
    assert reembed_line(BUILDING) == "openai large: building, 80 of 100, 1 buried"
    refused = replace(BUILDING, beside=replace(NEW, reason="provider_failed: 401"))
    assert reembed_line(refused).endswith("1 buried, provider_failed: 401")


def test_the_comparison_is_shown() -> None:
    lines = "\n".join(reembed_lines(READY))
    assert "98% of them are their own nearest text" in lines
    assert "61% of the ten nearest" in lines


def test_it_polls_until_the_other_model_is_ready(
    agentctx: Agentctx,
    daemon: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentctx.cli.reembed._PLAIN_POLL_S", 0.0)
    daemon.answer("GET", "/v1/reembed", (200, BUILDING), (200, BUILDING), (200, READY))
    assert agentctx("reembed", "--json") == 0
    out, err = agentctx.out, agentctx.err
    assert json.loads(out)["stage"] == "ready"
    assert err.count("building") == 2


def test_yes_gives_consent(agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentctx.cli.reembed._PLAIN_POLL_S", 0.0)
    daemon.answer("GET", "/v1/reembed", (200, HELD), (200, READY))
    daemon.answer("POST", "/v1/reembed/approve", (200, BUILDING))
    assert agentctx("reembed", "--yes") == 0
    assert [seen.path for seen in daemon.seen if seen.method == "POST"] == ["/v1/reembed/approve"]
