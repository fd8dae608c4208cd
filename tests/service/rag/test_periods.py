from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.periods import Period, day_of, is_about, narrowed, periods_in
from agentctx.storage.search import ResolvedChunk
from tests.service.rag.test_select import entry

TODAY = date(2026, 11, 26)
"""A Thursday."""


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did we decide today?", "2026-11-26", "2026-11-26"),
        ("who called yesterday", "2026-11-25", "2026-11-25"),
        ("who called the day before yesterday", "2026-11-24", "2026-11-24"),
        ("what is planned for tomorrow", "2026-11-27", "2026-11-27"),
        ("why did the deploy fail last week?", "2026-11-16", "2026-11-22"),
        ("what is on this week", "2026-11-23", "2026-11-29"),
        ("what is due next week", "2026-11-30", "2026-12-06"),
        ("costs of last month", "2026-10-01", "2026-10-31"),
        ("costs of this month", "2026-11-01", "2026-11-30"),
        ("who joined last year", "2025-01-01", "2025-12-31"),
        ("what broke in the last 3 days", "2026-11-23", "2026-11-26"),
        ("what broke in the past two weeks", "2026-11-12", "2026-11-26"),
        ("what broke in the past 7 days", "2026-11-19", "2026-11-26"),
        ("what broke in the last seven days", "2026-11-19", "2026-11-26"),
        ("what broke 10 days ago", "2026-11-16", "2026-11-16"),
        ("what broke two weeks ago", "2026-11-09", "2026-11-15"),
        ("who called a couple of days ago", "2026-11-24", "2026-11-24"),
        ("what did we ship in May", "2026-05-01", "2026-05-31"),
        ("what did we ship in december?", "2025-12-01", "2025-12-31"),
        ("what did we ship in May 2025?", "2025-05-01", "2025-05-31"),
        ("the offsite of Feb 2024", "2024-02-01", "2024-02-29"),
        ("what ships next May", "2027-05-01", "2027-05-31"),
        ("what ships this December", "2026-12-01", "2026-12-31"),
        ("the retro last Tuesday", "2026-11-24", "2026-11-24"),
        ("the retro on Thursday", "2026-11-19", "2026-11-19"),
        ("the retro next Thursday", "2026-12-03", "2026-12-03"),
        ("the retro this Friday", "2026-11-27", "2026-11-27"),
        ("what happened on 3 November", "2026-11-03", "2026-11-03"),
        ("what happened on November 3rd, 2024?", "2024-11-03", "2024-11-03"),
        ("what happened on the 3rd of December", "2025-12-03", "2025-12-03"),
        ("what happened on 2026-11-03?", "2026-11-03", "2026-11-03"),
        ("what happened in 2026-11", "2026-11-01", "2026-11-30"),
        ("who left in 2024?", "2024-01-01", "2024-12-31"),
        ("changes since Monday", "2026-11-23", "9999-12-31"),
        ("changes after 3 November", "2026-11-04", "9999-12-31"),
        ("decisions before June", "0001-01-01", "2026-05-31"),
        ("decisions until yesterday", "0001-01-01", "2026-11-25"),
        ("decisions between March and June", "2026-03-01", "9999-12-31"),
    ],
)
def test_a_question_names_a_period(question: str, first: str, last: str) -> None:
    assert periods_in(question, TODAY) == [Period(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    "question",
    [
        "what may I deploy",
        "may the build march on",
        "who wrote the last release notes",
        "what happens at the weekly sync",
        "is version 2026.1 out",
        "in 2026.1 what changed",
        "ticket ABC-2026-11-03",
        "logs-2026-11-03.txt",
        "on 2026-13-45",
        "on 31 February",
        "we march in step, and may be late",
        "the daily backup",
        "every Tuesday",
        "what happened 3 hours ago",
        "what happened on the 12th",
        "",
    ],
)
def test_a_question_names_none(question: str) -> None:
    assert periods_in(question, TODAY) == []


@given(st.text("0123456789-/ :.,thalsinyearwkgoMmonduf", max_size=60), st.dates())
def test_any_text_on_any_day_has_periods_or_none(text: str, today: date) -> None:
    assert all(each.first <= each.last or each.first > today for each in periods_in(text, today))


def week(text: str, saved: str) -> bool:
    return is_about(periods_in("last week", TODAY), text, date.fromisoformat(saved))


def test_a_text_is_about_the_days_up_to_its_saving_that_it_names() -> None:
    assert week("2026-11-18: the deploy failed", "2026-11-26")
    assert week("Yesterday the deploy failed", "2026-11-20")
    assert not week("2026-11-05: the deploy failed", "2026-11-18")


def test_a_text_that_names_no_such_day_is_about_the_day_it_was_saved() -> None:
    assert week("The deploy failed", "2026-11-18")
    assert week("We ship on 2026-12-24", "2026-11-18")
    assert not week("The deploy failed", "2026-11-24")
    assert not week("Since 2026-03-01 deploys fail", "2026-11-24")


def ranked(*relevances: float) -> list[Candidate]:
    return [Candidate(number, str(number), 1.0, 0.3, 0.0, each) for number, each in enumerate(relevances)]


def texts(*contents: str) -> dict[int, ResolvedChunk]:
    saved = int(datetime(2026, 11, 26, 12, tzinfo=UTC).timestamp() * 1_000)
    return {
        number: ResolvedChunk(
            chunk=number, start=0, end=1, content=each, entry=replace(entry(number), updated=saved)
        )
        for number, each in enumerate(contents)
    }


LAST_WEEK = periods_in("last week", TODAY)


def test_what_is_about_the_period_comes_first_and_the_others_are_less_relevant() -> None:
    found = narrowed(ranked(0.8, 0.6), texts("2026-11-03: failed", "2026-11-18: failed"), LAST_WEEK, UTC)
    assert [(each.chunk, each.relevance) for each in found] == [(1, 0.6), (0, 0.4)]


@pytest.mark.parametrize(
    ("contents", "periods"),
    [
        (("2026-11-03: failed", "2026-11-04: failed"), LAST_WEEK),
        (("2026-11-03: failed", "2026-11-18: failed"), []),
        (("2026-11-18: failed", "2026-11-19: failed"), LAST_WEEK),
    ],
    ids=["none is", "no period", "all are"],
)
def test_otherwise_nothing_changes(contents: tuple[str, str], periods: list[Period]) -> None:
    before = ranked(0.8, 0.6)
    assert narrowed(before, texts(*contents), periods, UTC) == before


def test_what_is_hardly_relevant_stays_behind() -> None:
    before = ranked(0.8, 0.1)
    assert narrowed(before, texts("2026-11-03: failed", "2026-11-18: lunch"), LAST_WEEK, UTC) == before


def test_the_day_is_that_of_the_zone() -> None:
    late = int(datetime(2026, 11, 25, 23, tzinfo=UTC).timestamp() * 1_000)
    assert day_of(late, UTC) == date(2026, 11, 25)
    assert day_of(late, timezone(timedelta(hours=2))) == date(2026, 11, 26)
