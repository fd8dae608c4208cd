"""Dates in any form."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.dates import can_be_same, dates_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("due 3 Nov 2026", ["2026-11-03"]),
        ("due on November 3, 2026.", ["2026-11-03"]),
        ("the 3rd of November", ["*-11-03"]),
        ("on 2026-11-03 at 14:00", ["2026-11-03"]),
        ("03/11/2026", ["2026-11-03", "2026-03-11"]),
        ("31.12.26", ["2026-12-31"]),
        ("in March 2025", ["2025-03-*"]),
        ("since 2025-03", ["2025-03-*"]),
        ("Sept 14, hour by hour", ["*-09-14"]),
        ("you may ask in March", []),
        ("v3.11.2 at 14:00", []),
        ("invoice 2026-0313", []),
    ],
)
def test_a_date_has_one_notation_and_an_ambiguous_one_two(text: str, expected: list[str]) -> None:
    assert [value for _, value in dates_of(text)] == expected


@given(st.dates(min_value=date(1970, 1, 1), max_value=date(2099, 12, 31)))
def test_every_form_of_a_day_is_that_day(day: date) -> None:
    forms = [
        day.isoformat(),
        f"{day.day} {day:%B} {day.year}",
        f"{day:%b} {day.day}, {day.year}",
        f"{day.day}th of {day:%B} {day.year}",
        f"{day:%d/%m/%Y}",
        f"{day:%m.%d.%Y}",
    ]
    for form in forms:
        assert day.isoformat() in [value for _, value in dates_of(form)], form


def test_what_is_not_said_may_be_anything() -> None:
    assert can_be_same("*-11-03", "2026-11-03")
    assert can_be_same("2026-11-*", "2026-11-03")
    assert not can_be_same("2025-11-*", "2026-11-03")
