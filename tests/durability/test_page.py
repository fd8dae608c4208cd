from __future__ import annotations

from tests.durability import page, registry, tally


def test_the_page_matches_the_recorded_totals() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.updated(text, tally.read()) == text, "run `python -m tests.durability --page`"


def test_every_suite_is_on_the_page() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert [name for name in registry.available() if f"`{name}`" not in text] == []
