from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability import page, registry, tally


def test_the_page_matches_the_recorded_totals() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.updated(text, tally.read()) == text, "run `python -m tests.durability --page`"


@pytest.mark.parametrize("file", [page.PAGE, Path(__file__).with_name("README.md")])
def test_every_suite_is_described(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [name for name in registry.available() if f"`{name}`" not in text] == []
