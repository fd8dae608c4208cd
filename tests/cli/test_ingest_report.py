import os
import signal
from pathlib import Path
from typing import cast

import pytest

from agentctx.cli.ingest_report import (
    CountingClient,
    estimate_rows,
    long_run_line,
    make_estimate,
    seconds_per_chunk,
)
from agentctx.client.sync_client import Client
from agentctx.embedding.providers.prices import CostEstimate, needs_consent
from agentctx.wire import EntryPage, ProviderStatus, SaveRequest, SearchReply, StatusReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import on_a_terminal
from tests.cli.transcript import remote, saved_all
from tests.client.stub_daemon import StubDaemon, status_reply

LOCAL = ProviderStatus(id="embedded", model="m", dimension=100, state="ok", reason=None)


def saving(*texts: str) -> CountingClient:
    client = CountingClient()
    requests = [SaveRequest(collection="knowledge", key=text[:9], content=text) for text in texts]
    assert len(list(client.save_all(requests))) == len(texts)
    return client


class Answers:
    """A client whose searches take the times of a list."""

    def __init__(self, degraded: str | None, *took_s: float) -> None:
        self.degraded = degraded
        self.ticks = [tick for took in took_s for tick in (0.0, took)]

    def search(self, query: str, **options: object) -> SearchReply:
        return SearchReply(results=[], degraded=self.degraded)

    def clock(self) -> float:
        return self.ticks.pop(0)


def test_chunks_are_counted_and_some_are_kept_as_samples() -> None:
    client = saving("short", "word " * 1_000, "", *(f"text {number}" for number in range(20)))
    assert client.chunks > 25
    assert len(client.samples) == 6
    assert client.samples[0] == "short"


def test_the_speed_is_the_median_of_the_samples() -> None:
    answers = Answers(None, 9.0, 0.1, 0.2)
    assert seconds_per_chunk(cast(Client, answers), ["a", "b", "c"], "default", clock=answers.clock) == 0.2


def test_an_unused_model_is_not_measured() -> None:
    answers = Answers("starting", 9.0)
    assert seconds_per_chunk(cast(Client, answers), ["a"], "default", clock=answers.clock) is None
    assert seconds_per_chunk(cast(Client, answers), [], "default") is None


def test_an_estimate_is_extrapolated_and_labelled() -> None:
    estimate = make_estimate(saving("abc" * 10, "def" * 10), LOCAL, 0.5)
    assert (estimate.chunks, estimate.tokens, estimate.seconds, estimate.measured_on) == (2, 20, 1.0, 2)
    assert estimate.disk_bytes == 60 * 3 + 2 * 1_800
    rows = {name: (value, remark) for name, value, remark in estimate_rows(estimate)}
    assert rows["embedding"] == ("1.0 s", "estimate, measured on 2 of them")
    assert rows["chunks"] == ("2", "")
    unknown = {row[0]: row[2] for row in estimate_rows(make_estimate(saving("abc"), LOCAL, None))}
    assert "not measured" in unknown["embedding"]


def test_only_a_long_run_is_announced() -> None:
    assert long_run_line(1_000_000, None) is None
    assert long_run_line(10_000, 0.1) is None
    line = long_run_line(5_750_000, 0.1)
    assert line is not None
    assert line.startswith("about 10,000 chunks, about 17 min to embed")
    assert "by keyword as soon as it is saved" in line


@pytest.mark.parametrize(("status", "searches"), [(status_reply(), 1), (remote(0.02), 0)])
def test_a_dry_run_measures_a_local_model_and_sends_a_remote_one_nothing(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path, status: StatusReply, searches: int
) -> None:
    (folder / ".hidden.md").write_text("x")
    daemon.answer("GET", "/v1/status", (200, status))
    daemon.answer("POST", "/v1/search", (200, SearchReply(results=[], degraded=None)))
    assert agentctx("ingest", "--dry-run", str(folder)) == 0
    assert "chunks" in agentctx.out
    assert "1 hidden" in agentctx.out
    assert ".hidden.md" not in agentctx.out
    assert "by keyword as soon as it is saved" in agentctx.err
    asked = {seen.body["query"] for seen in daemon.seen if seen.path == "/v1/search"}
    assert len(asked) == searches
    assert agentctx("ingest", "--dry-run", "--verbose", str(folder)) == 0
    assert ".hidden.md" in agentctx.out


@pytest.fixture
def folder(tmp_path: Path, daemon: StubDaemon) -> Path:
    """A file of 3,000 bytes: about 1,000 tokens."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("word " * 600)
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))
    daemon.answer("POST", "/v1/entries", saved_all)
    return folder


def saves(daemon: StubDaemon) -> int:
    return sum(seen.method == "POST" for seen in daemon.seen)


@pytest.mark.parametrize(("answer", "code", "sent"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0)])
def test_a_terminal_prompts_for_consent(
    agentctx: Agentctx,
    daemon: StubDaemon,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    sent: int,
) -> None:
    daemon.answer("GET", "/v1/status", (200, remote(2_000.0)))
    err = on_a_terminal(monkeypatch, answer)
    assert agentctx("ingest", str(folder)) == code
    assert "Go on?" in err.written()
    assert saves(daemon) == sent


def test_ctrl_c_at_the_prompt_sends_nothing(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("GET", "/v1/status", (200, remote(2_000.0)))
    on_a_terminal(monkeypatch, "")

    def interrupted(*_: object, **__: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the question went on waiting")

    monkeypatch.setattr("typer._click.termui.visible_prompt_func", interrupted)
    assert agentctx("ingest", str(folder)) == 130
    assert saves(daemon) == 0


def test_json_never_prompts_and_includes_the_cost(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path
) -> None:
    daemon.answer("GET", "/v1/status", (200, remote(0.02)))
    assert agentctx("ingest", "--json", str(folder)) == 0
    document = agentctx.json
    assert document["cost"] == {"tokens": 1_000, "usd": pytest.approx(0.00002), "model": "m-small"}


@pytest.mark.parametrize(
    ("usd", "confirm_usd", "needed"),
    [(1.01, 1.0, True), (1.0, 1.0, False), (99.0, 0.0, False), (None, 1.0, False)],
)
def test_the_threshold(usd: float | None, confirm_usd: float, needed: bool) -> None:
    assert needs_consent(CostEstimate(1, usd), confirm_usd) is needed
