from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.storage.location import LOOK_BACK, MAX_HEADINGS, headings_of

PAGE = """# Guide

## Install

Use pip.

```sh
# not a heading
```

### From a clone

Run make.

## Use

Ask it.
"""
CODE = '''import json


class Reader:
    """Reads."""

    def read(self):
        return 1

    async def close(self):
        if self.open:
            self.file.close()


def main():
    Reader().read()
'''


def headings_around(path: str, text: str, passage: str) -> list[str]:
    return headings_of(path, text[: text.index(passage)], passage)


@pytest.mark.parametrize(
    ("passage", "names"),
    [
        ("Run make.", ["Guide", "Install", "From a clone"]),
        ("Ask it.", ["Guide", "Use"]),
        ("## Use\n\nAsk it.", ["Guide", "Use"]),
        ("Use pip.", ["Guide", "Install"]),
        ("Run make.\n\n## Use", ["Guide", "Install", "From a clone", "Use"]),
    ],
)
def test_a_page_yields_its_headings(passage: str, names: list[str]) -> None:
    assert headings_around("docs/guide.md", PAGE, passage) == names


@pytest.mark.parametrize(
    ("passage", "names"),
    [
        ("        return 1", ["class Reader", "def read"]),
        ("            self.file.close()", ["class Reader", "def close"]),
        ("    async def close(self):", ["class Reader", "def close"]),
        ("def main():\n    Reader()", ["def main"]),
        ("        return 1\n\n    async def close", ["class Reader", "def read", "def close"]),
        ("self.file.close()", ["class Reader", "def close"]),
        ("import json", []),
    ],
)
def test_code_yields_its_classes_and_functions(passage: str, names: list[str]) -> None:
    assert headings_around("reader.py", CODE, passage) == names


@pytest.mark.parametrize(
    ("path", "line", "name"),
    [
        ("a.ts", "export default async function load() {", "function load"),
        ("a.go", "func (s *Store) Save(x int) error {", "func Save"),
        ("a.rs", "pub(crate) fn parse<'a>(x: &'a str) {", "fn parse"),
        ("a.java", "public abstract class Store {", "class Store"),
    ],
)
def test_definitions_in_other_languages_are_headings(path: str, line: str, name: str) -> None:
    assert headings_around(path, f"{line}\n    inside\n", "    inside") == [name]


@pytest.mark.parametrize("path", ["notes.txt", "deploy.sh", "config.yaml", "Makefile", ""])
def test_a_comment_is_not_a_heading(path: str) -> None:
    assert headings_of(path, "# A comment\n", "value") == []


TEXTS = st.text("#`~ def\n", max_size=200)


@given(TEXTS, TEXTS, st.sampled_from(["a.md", "a.py"]))
def test_the_number_of_headings_is_bounded(before: str, passage: str, path: str) -> None:
    assert len(headings_of(path, before, passage)) <= MAX_HEADINGS


@pytest.mark.timeout(20)
@pytest.mark.parametrize("path", ["a.md", "a.py"])
@pytest.mark.parametrize("piece", ["# ", "#", "`", "async ", "    ", "pub(", "def f("])
def test_finding_headings_takes_linear_time(path: str, piece: str) -> None:
    before = (piece * LOOK_BACK)[: LOOK_BACK - 2] + "x\n"
    for _ in range(20):
        headings_of(path, before, "text")
