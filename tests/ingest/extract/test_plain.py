from __future__ import annotations

import pytest

from agentctx.ingest.extract.base import Extracted, ExtractLimits, ExtractRefusal
from tests.ingest.extract.promises import extracted, extracted_or_refused, number_of


@pytest.mark.parametrize(
    "name", ["a.md", "a.py", "a.csv", "a.log", "a.toml", "Makefile", "a.xml", "a.svg", "a.rst"]
)
def test_text_is_exact(name: str) -> None:
    text = "# One\r\n\r\ntwo,\t2 \N{ANCHOR}\n\n\n   three  \r\n"
    assert extracted(name, text.encode()) == Extracted(text, "line", ((0, 1),))


def test_lines_are_those_of_the_file() -> None:
    assert number_of("three", extracted("a.txt", b"one\r\ntwo\r\nthree\r\n")) == 3


def test_minified_json_stays_as_it_is() -> None:
    assert extracted("a.json", b'{"a":[1,2],"b":"\\u0000"}').text == '{"a":[1,2],"b":"\\u0000"}'


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_file_without_text_is_empty(data: bytes) -> None:
    assert extracted_or_refused("a.txt", data) == ExtractRefusal.EMPTY


def test_a_text_over_the_limit_is_refused() -> None:
    assert extracted_or_refused("a.txt", b"12345", ExtractLimits(characters=4)) == ExtractRefusal.TOO_LARGE
