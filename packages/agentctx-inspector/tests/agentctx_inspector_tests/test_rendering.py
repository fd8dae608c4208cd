from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from agentctx_inspector.rendering import ago, beginning, coded, day, moment, name_of, query, title_of
from agentctx_inspector_tests.test_filters import passage, view

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("2026-11-29T11:59:30.000Z", "just now"),
        ("2026-11-29T12:00:30.000Z", "just now"),
        ("2026-11-29T11:50:00.000Z", "10 min ago"),
        ("2026-11-29T07:00:00.000Z", "5 h ago"),
        ("2026-11-28T11:00:00.000Z", "1 day ago"),
        ("2026-11-01T11:00:00.000Z", "2026-11-01"),
    ],
)
def test_times_are_said_as_people_do(time: str, said: str) -> None:
    assert ago(time, NOW) == said


def test_moments_and_days_are_in_utc() -> None:
    assert moment("2026-11-29T07:00:59.000Z") == "2026-11-29 07:00 UTC"
    today = date(2026, 11, 29)
    assert [day(f"2026-11-{each}T00:00", today) for each in (29, 28, 27)] == [
        "Today",
        "Yesterday",
        "27 November 2026",
    ]


def test_a_memory_is_called_by_its_key_its_trigger_or_its_beginning() -> None:
    assert title_of(view("1", key="plan")) == "plan"
    assert (
        title_of(view("1", collection="learning", key="k#1", attributes={"trigger": "make test"}))
        == "make test"
    )
    assert name_of(view("1", content="two\nlines")) == "two lines"
    assert title_of(passage("id", 0.5)) == ""


def test_a_beginning_has_one_line_and_an_end() -> None:
    assert beginning("a  b\n c", 10) == "a b c"
    assert beginning("word " * 100, 11) == "word word…"


def test_a_query_string_leaves_out_what_is_empty() -> None:
    assert query({"q": "a&b", "tag": ["x", "y"], "none": "", "no": None}) == "?q=a%26b&tag=x&tag=y"
    assert query({"q": ""}) == ""


def test_commands_in_a_hint_are_code_and_all_else_is_text() -> None:
    assert coded("Run `agentctx <b>` & `again`.") == (
        "Run <code>agentctx &lt;b&gt;</code> &amp; <code>again</code>."
    )
