"""Which texts say the same, and which is a newer version of another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.versions import FactText


def updates(newer: str, older: str) -> bool:
    return FactText(newer).updates(FactText(older))


def repeats(one: str, other: str) -> bool:
    first, second = FactText(one), FactText(other)
    assert first.repeats(second) == second.repeats(first)
    return first.repeats(second)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The API rate limit is 100 requests per minute.", "The API rate limit is 250 requests per minute."),
        ("The team lead is Anna.", "Since March, Bernd is the team lead."),
        ("The user prefers tabs.", "The user prefers spaces."),
        ("The user is a vegetarian.", "The user is no longer a vegetarian and eats meat."),
        ("CI runs on Jenkins.", "CI runs on GitHub Actions now."),
        ("Backups are kept for 30 days.", "Backups are kept for 90 days."),
        ("Use pnpm for all packages.", "Use bun for all packages instead of pnpm."),
        ("The user lives in Berlin.", "The user moved from Berlin to Lisbon."),
        ("Releases need two approvals.", "Releases need one approval."),
        ("The staging URL is https://stage.example.org.", "The staging URL is https://next.example.org."),
        ("Deploys on Fridays are allowed.", "Deploys on Fridays are not allowed."),
        ("User: The logs go to Loki.", "The logs go to OpenSearch, not Loki any more."),
        ("Die Rechnungen gehen monatlich raus.", "Die Rechnungen gehen ab sofort jede Woche raus."),
    ],
)
def test_another_value_of_the_same_is_a_version(older: str, newer: str) -> None:
    assert updates(newer, older)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "The staging database is restored every Monday.",
            "The production database is restored every Monday.",
        ),
        ("The staging database is restored every Monday.", "The staging database is encrypted at rest."),
        ("Ticket ABC-1234 is blocked by the vendor.", "Ticket ABC-1243 is blocked by the vendor."),
        ("Anna prefers calls in the morning.", "Bernd prefers calls in the afternoon."),
        ("Backups are kept for 30 days.", "Logs are kept for 90 days."),
        ("Restore the staging database every Monday.", "Restore the production database every Friday."),
        ("The user prefers dark mode.", "The user is allergic to peanuts."),
        ("Never force-push to main.", "Never commit generated files."),
        ("The web shop is built with Django.", "The web shop now has a Redis cache."),
        ("Rosa has the key to the server room.", "Rosa is on holiday until May."),
        ("The cache TTL is five minutes.", "The session TTL is two hours."),
        ("Yes.", "No."),
        ("", ""),
    ],
)
def test_twins_and_other_facts_are_no_versions(one: str, other: str) -> None:
    assert not updates(one, other)
    assert not updates(other, one)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("We deploy on Tuesdays at nine.", "Deploys happen on Tuesdays at 9.", True),
        ("User: Never force-push to main!", "Never force-push to main.", True),
        ("The user prefers tabs over spaces.", "The user clearly prefers tabs over spaces.", True),
        ("The user prefers tabs over spaces.", "The user prefers spaces over tabs.", False),
        ("Anna reports to Bernd.", "Bernd reports to Anna.", False),
        ("The limit is 100 requests per minute.", "The limit is 250 requests per minute.", False),
        ("The limit is set in the gateway.", "The limit is set in the gateway 2.", False),
        ("Deploys on Fridays are allowed.", "Deploys on Fridays are not allowed.", False),
        ("We deploy.", "We deploy on Tuesdays.", False),
    ],
)
def test_the_same_words_in_order_say_the_same(one: str, other: str, is_same: bool) -> None:
    assert repeats(one, other) is is_same


def test_a_long_text_states_more_than_one_fact() -> None:
    text = "The limit is 100 requests per minute. " * 20
    assert not updates(text.replace("100", "250"), text)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("On 12 June 2025 the launch moved to 3 November 2025.", "2025-06-12"),
        ("2024-02-10: scheduled at 01:00.", "2024-02-10"),
        ("Fees as of jan 2024: 38 a month.", "2024-01-*"),
        ("Fees are 38 a month.", ""),
    ],
)
def test_the_first_date_is_that_of_the_text(text: str, date: str) -> None:
    assert FactText(text).date == date


@given(st.text(max_size=80))
def test_any_text_says_the_same_as_itself(text: str) -> None:
    assert repeats(text, text)


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_texts_can_be_compared(one: str, other: str) -> None:
    assert isinstance(updates(one, other) or repeats(one, other), bool)
