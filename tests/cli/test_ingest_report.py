import os
import signal
from pathlib import Path
from typing import cast

import pytest

from agentctx.cli.ingest_report import (
    CountingClient,
    cost_line,
    estimate_rows,
    long_run_line,
    make_estimate,
    seconds_per_chunk,
)
from agentctx.client.sync_client import Client
from agentctx.embedding.providers.prices import CostEstimate, needs_consent
from agentctx.wire import EntryPage, ProviderCost, ProviderStatus, SaveManyReply, SaveRequest, SearchReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import on_a_terminal
from tests.client.stub_daemon import Reply, StubDaemon, StubRequest, save_result, status_reply

LOCAL = ProviderStatus(id="embedded", model="m", dimension=100, state="ok", reason=None)

PAID = ProviderCost(
    usd_per_million_tokens=0.02,
    price_source="published",
    usd_per_day=0.0,
    confirm_usd=1.0,
    tokens_today=0,
    usd_today=0.0,
    cap_reached=False,
)


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


@pytest.mark.parametrize(("cost", "searches"), [(None, 1), (PAID, 0)])
def test_a_dry_run_measures_a_local_model_and_sends_a_remote_one_nothing(
    agentctx: Agentctx,
    daemon: StubDaemon,
    tmp_path: Path,
    cost: ProviderCost | None,
    searches: int,
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Deploys happen on Tuesdays.\n")
    (tmp_path / "docs" / ".hidden.md").write_text("x")
    provider = ProviderStatus(id="p", model="m", dimension=9, state="ok", reason=None, cost=cost)
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))
    daemon.answer("GET", "/v1/status", (200, status_reply(provider=provider)))
    daemon.answer("POST", "/v1/search", (200, SearchReply(results=[], degraded=None)))
    assert agentctx("ingest", "--dry-run", str(tmp_path / "docs")) == 0
    assert "chunks" in agentctx.out
    assert "1 hidden" in agentctx.out
    assert ".hidden.md" not in agentctx.out
    assert "by keyword as soon as it is saved" in agentctx.err
    assert len([seen for seen in daemon.seen if seen.path == "/v1/search"]) == searches
    assert agentctx("ingest", "--dry-run", "--verbose", str(tmp_path / "docs")) == 0
    assert ".hidden.md" in agentctx.out


def cost(usd_per_million_tokens: float | None = 0.02, confirm_usd: float = 1.0) -> ProviderCost:
    return ProviderCost(
        usd_per_million_tokens=usd_per_million_tokens,
        price_source="published, as of 2026-05" if usd_per_million_tokens else "",
        usd_per_day=0.0,
        confirm_usd=confirm_usd,
        tokens_today=0,
        usd_today=0.0,
        cap_reached=False,
    )


def provider(cost: ProviderCost | None) -> ProviderStatus:
    return ProviderStatus(id="openai", model="m-small", dimension=8, state="ok", reason=None, cost=cost)


@pytest.fixture
def folder(tmp_path: Path, daemon: StubDaemon) -> Path:
    """A file of 3,000 bytes: about 1,000 tokens."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("word " * 600)
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))
    daemon.answer("POST", "/v1/entries", _saved)
    return folder


def _saved(seen: StubRequest) -> Reply:
    return 200, SaveManyReply(results=[save_result() for _ in seen.body["entries"]])


def costs(daemon: StubDaemon, cost: ProviderCost | None) -> None:
    daemon.answer("GET", "/v1/status", (200, status_reply(provider=provider(cost))))


def saves(daemon: StubDaemon) -> int:
    return sum(seen.method == "POST" for seen in daemon.seen)


def test_a_low_cost_is_printed_without_a_prompt(agentctx: Agentctx, daemon: StubDaemon, folder: Path) -> None:
    costs(daemon, cost())
    assert agentctx("ingest", str(folder)) == 0
    assert agentctx.err.splitlines()[0] == (
        "note: about 1,000 tokens to embed with openai m-small, $0.000020 "
        "($0.02 a million, published, as of 2026-05)"
    )
    assert saves(daemon) == 1


def test_free_embedding_prints_nothing(agentctx: Agentctx, daemon: StubDaemon, folder: Path) -> None:
    costs(daemon, None)
    assert agentctx("ingest", str(folder)) == 0
    assert "tokens" not in agentctx.err


def test_an_unknown_price_does_not_block(agentctx: Agentctx, daemon: StubDaemon, folder: Path) -> None:
    costs(daemon, cost(None))
    assert agentctx("ingest", str(folder)) == 0
    assert "no published price known for m-small; set embedding.limits.usd_per_million_tokens" in agentctx.err


def test_a_high_cost_is_refused_without_a_terminal(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path
) -> None:
    costs(daemon, cost(2_000.0))
    assert agentctx("ingest", str(folder)) == 2
    err = agentctx.err
    assert "error: Embedding this costs about $2.00, more than $1.00; nothing was sent." in err
    assert "hint: Pass --yes" in err
    assert saves(daemon) == 0


@pytest.mark.parametrize("option", ["--yes", "-y", "--dry-run"])
def test_consent_given_or_not_needed(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path, option: str
) -> None:
    costs(daemon, cost(2_000.0))
    assert agentctx("ingest", option, str(folder)) == 0
    assert "$2.00" in agentctx.err
    assert saves(daemon) == (0 if option == "--dry-run" else 1)


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
    costs(daemon, cost(2_000.0))
    err = on_a_terminal(monkeypatch, answer)
    assert agentctx("ingest", str(folder)) == code
    assert "Go on?" in err.written()
    assert saves(daemon) == sent


def test_ctrl_c_at_the_prompt_sends_nothing(
    agentctx: Agentctx, daemon: StubDaemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs(daemon, cost(2_000.0))
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
    costs(daemon, cost())
    assert agentctx("ingest", "--json", str(folder)) == 0
    document = agentctx.json
    assert document["cost"] == {"tokens": 1_000, "usd": pytest.approx(0.00002), "model": "m-small"}


def test_quiet_prints_only_important_lines(agentctx: Agentctx, daemon: StubDaemon, folder: Path) -> None:
    costs(daemon, cost())
    assert agentctx("ingest", "--quiet", str(folder)) == 0
    assert "tokens" not in agentctx.err


@pytest.mark.parametrize(
    ("usd", "confirm_usd", "needed"),
    [(1.01, 1.0, True), (1.0, 1.0, False), (99.0, 0.0, False), (None, 1.0, False)],
)
def test_the_threshold(usd: float | None, confirm_usd: float, needed: bool) -> None:
    assert needs_consent(CostEstimate(1, usd), confirm_usd) is needed


def test_the_line_without_a_price() -> None:
    line = cost_line(CostEstimate(7, None), provider(None), cost(None))
    assert line.startswith("about 7 tokens to embed with openai m-small; no published price known")
