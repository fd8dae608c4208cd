from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.ingest.extract.base import ExtractedText, ExtractLimits, ExtractRefusal
from agentctx.ingest.extract.registry import is_surely_binary
from tests.ingest.extract import samples
from tests.ingest.extract.promises import extracted, extracted_or_refused, number_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"

SAMPLES: Mapping[str, Callable[[], bytes]] = {
    "a.txt": "Größe: 3 \N{ANCHOR}\r\nzwei\n".encode,
    "a.html": lambda: samples.HTML,
    "a.ipynb": samples.notebook,
    "a.pdf": cache(lambda: samples.pdf(["one", "two (2)"])),
    "a.docx": cache(samples.word),
    "a.pptx": cache(samples.slides),
    "a.xlsx": cache(samples.workbook),
}
PACKAGES = [name for name in SAMPLES if name.endswith("x") and name != "a.ipynb"]


def path_of(name: str) -> PurePath:
    return PurePath("folder") / name


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_type_comes_from_the_suffix_then_its_bytes(name: str) -> None:
    found = extracted(name, SAMPLES[name]())
    assert extracted(name.upper(), SAMPLES[name]()) == found
    if name != "a.ipynb":
        assert extracted("no-suffix", SAMPLES[name]()) == found
        assert extracted("a.unknown", SAMPLES[name]()) == found


@pytest.mark.parametrize("suffix", [".doc", ".xls", ".ppt"])
def test_old_office_files_say_what_to_do(suffix: str) -> None:
    compound = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)
    assert extracted_or_refused(f"a{suffix}", compound) == ExtractRefusal.UNSUPPORTED


@pytest.mark.parametrize("name", [*SAMPLES, "a.png", "a"])
def test_an_empty_file_is_empty_whatever_it_is_called(name: str) -> None:
    assert extracted_or_refused(name, b"") == ExtractRefusal.EMPTY


def test_archives_and_pictures_are_binary() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", b"text " * 100)
    assert extracted_or_refused("a.zip", out.getvalue()) == ExtractRefusal.BINARY
    assert extracted_or_refused("a.png", PNG) == ExtractRefusal.BINARY


def test_the_first_bytes_reveal_binary_files() -> None:
    assert is_surely_binary(PurePath("a.png"), PNG + bytes(range(128, 256)))
    assert not is_surely_binary(PurePath("a.png"), PNG)
    for name, sample in SAMPLES.items():
        assert not is_surely_binary(PurePath(name), sample()[:8192])
        assert not is_surely_binary(PurePath("a"), sample()[:8192])


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_text_or_refused(name: str, data: st.DataObject) -> None:
    extracted_or_refused(name, damaged(data, SAMPLES[name]()))


@pytest.mark.parametrize("name", PACKAGES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_an_office_file_with_a_damaged_part_is_text_or_refused(name: str, data: st.DataObject) -> None:
    package = SAMPLES[name]()
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        part = data.draw(st.sampled_from(sorted(archive.namelist())))
    changed = damaged(data, samples.part(package, part))
    extracted_or_refused(name, samples.repacked(package, {part: changed}))


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """The content cut at the end, with some of its bytes changed."""
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    changed = bytearray(content[:end])
    if changed:
        positions = st.integers(0, len(changed) - 1)
        for position, value in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), max_size=8)):
            changed[position] = value
    return bytes(changed)


@pytest.mark.parametrize(
    "name", ["a.md", "a.py", "a.csv", "a.log", "a.toml", "Makefile", "a.xml", "a.svg", "a.rst"]
)
def test_text_is_exact(name: str) -> None:
    text = "# One\r\n\r\ntwo,\t2 \N{ANCHOR}\n\n\n   three  \r\n"
    assert extracted(name, text.encode()) == ExtractedText(text, "line", ((0, 1),))


def test_line_numbers_match_the_file() -> None:
    assert number_of("three", extracted("a.txt", b"one\r\ntwo\r\nthree\r\n")) == 3


def test_minified_json_stays_as_it_is() -> None:
    assert extracted("a.json", b'{"a":[1,2],"b":"\\u0000"}').text == '{"a":[1,2],"b":"\\u0000"}'


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_file_without_text_is_empty(data: bytes) -> None:
    assert extracted_or_refused("a.txt", data) == ExtractRefusal.EMPTY


def test_a_text_over_the_limit_is_refused() -> None:
    assert extracted_or_refused("a.txt", b"12345", ExtractLimits(characters=4)) == ExtractRefusal.TOO_LARGE
