from __future__ import annotations

import pytest

from agentctx.server.problems import describe_validation_errors, quoted


@pytest.mark.parametrize(
    ("location", "place"),
    [
        (("body", "key"), "`key`"),
        (("body", "<many>", "entries", 0, "tags", 2), "`entries[0].tags[2]`"),
        (("query", "limit"), "parameter `limit`"),
        (("path", "entry_id"), "parameter `entry_id`"),
        (("header", "Idempotency-Key"), "header `Idempotency-Key`"),
        (("body",), "the body"),
    ],
)
def test_the_place_is_named(location: tuple[str | int, ...], place: str) -> None:
    assert (
        describe_validation_errors([{"type": "string_type", "loc": location}]) == f"{place} must be a string."
    )


def test_limits_are_shown_as_numbers() -> None:
    error = {"type": "less_than_equal", "loc": ("query", "limit"), "ctx": {"le": 500}}
    assert describe_validation_errors([error]) == "parameter `limit` must be at most 500."


def test_an_unknown_rule_is_reported_without_the_value() -> None:
    error = {"type": "url_parsing", "loc": ("body", "url"), "msg": "secret", "input": "secret"}
    assert describe_validation_errors([error]) == "`url` is not valid."


def test_names_from_requests_are_shown_only_if_plain() -> None:
    assert quoted("tags[0].name") == "`tags[0].name`"
    assert quoted("a_b" * 20) == f"`{('a_b' * 20)[:40]}…`"
    assert quoted("a\n\x1b[31m") == quoted("a" * 100) == "(not shown)"
