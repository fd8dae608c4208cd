from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from agentctx.cli.ingest_estimate import (
    CountingRehearsal,
    estimate_rows,
    estimated,
    long_run_line,
    seconds_per_chunk,
)
from agentctx.client.sync_client import Client
from agentctx.wire import EntryPage, ProviderCost, ProviderStatus, SaveRequest, SearchReply
from tests.client.stub_daemon import StubDaemon, status_reply

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


def saving(*texts: str) -> CountingRehearsal:
    rehearsal = CountingRehearsal()
    requests = [SaveRequest(collection="knowledge", key=text[:9], content=text) for text in texts]
    assert len(list(rehearsal.save_all(requests))) == len(texts)
    return rehearsal


class Answers:
    """A client whose searches take as long as a list says."""

    def __init__(self, degraded: str | None, *took_s: float) -> None:
        self.degraded = degraded
        self.ticks = [tick for took in took_s for tick in (0.0, took)]

    def search(self, query: str, **options: object) -> SearchReply:
        return SearchReply(results=[], degraded=self.degraded)

    def clock(self) -> float:
        return self.ticks.pop(0)


def test_chunks_are_counted_and_some_are_kept_as_samples() -> None:
    rehearsal = saving("short", "word " * 1_000, "", *(f"text {number}" for number in range(20)))
    assert rehearsal.chunks > 25
    assert len(rehearsal.samples) == 6
    assert rehearsal.samples[0] == "short"


def test_the_pace_is_the_median_of_the_samples() -> None:
    answers = Answers(None, 9.0, 0.1, 0.2)
    assert seconds_per_chunk(cast(Client, answers), ["a", "b", "c"], "default", clock=answers.clock) == 0.2


def test_a_model_that_takes_no_part_is_not_measured() -> None:
    answers = Answers("starting", 9.0)
    assert seconds_per_chunk(cast(Client, answers), ["a"], "default", clock=answers.clock) is None
    assert seconds_per_chunk(cast(Client, answers), [], "default") is None


def test_an_estimate_is_extrapolated_and_named_so() -> None:
    estimate = estimated(saving("abc" * 10, "def" * 10), LOCAL, 0.5)
    assert (estimate.chunks, estimate.tokens, estimate.seconds, estimate.measured_on) == (2, 20, 1.0, 2)
    assert estimate.disk_bytes == 60 * 3 + 2 * 1_800
    rows = {name: (value, remark) for name, value, remark in estimate_rows(estimate)}
    assert rows["embedding"] == ("1.0 s", "estimate, measured on 2 of them")
    assert rows["chunks"] == ("2", "")
    unknown = {row[0]: row[2] for row in estimate_rows(estimated(saving("abc"), LOCAL, None))}
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
    agentctx: Callable[..., int],
    daemon: StubDaemon,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
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
    shown = capsys.readouterr()
    assert "chunks" in shown.out
    assert "1 hidden" in shown.out
    assert ".hidden.md" not in shown.out
    assert "by keyword as soon as it is saved" in shown.err
    assert len([seen for seen in daemon.seen if seen.path == "/v1/search"]) == searches
    assert agentctx("ingest", "--dry-run", "--verbose", str(tmp_path / "docs")) == 0
    assert ".hidden.md" in capsys.readouterr().out
