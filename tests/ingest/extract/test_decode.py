from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.extract.base import ExtractRefusal, NotIngestible
from agentctx.ingest.extract.decode import decode, looks_binary

EMOJI = "One café, two \N{ANCHOR} \N{GRINNING FACE}.\r\nThird\rline.\n"


def refusal(data: bytes) -> ExtractRefusal:
    with pytest.raises(NotIngestible) as refused:
        decode(data)
    return refused.value.refusal


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
)
def test_unicode_with_its_mark_is_exact_and_the_mark_is_dropped(encoding: str) -> None:
    mark = "\ufeff".encode(encoding) if encoding.endswith(("le", "be")) else b""
    assert decode(mark + EMOJI.encode(encoding)) == EMOJI


@pytest.mark.parametrize(
    "text", ["Größe: 3 µm, naïve café.", "El niño dijo «sí» — 5 €", "# coding\nname = 'Ærø'\n" * 50]
)
def test_western_text_is_read_as_windows_1252(text: str) -> None:
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Привет, мир. Это текст.", "cp1251"), ("日本語のテキスト", "shift_jis"), ("中文文本", "gbk")],
)
def test_other_old_encodings_are_refused_rather_than_garbled(text: str, encoding: str) -> None:
    assert refusal(text.encode(encoding)) == ExtractRefusal.UNDECODABLE
    assert decode(text.encode(encoding), declared=encoding) == text


def test_a_few_words_of_another_alphabet_are_not_western() -> None:
    code = "x = 1  # привет, мир\n".encode("cp1251") + b"y = [x for x in range(9)]\n" * 20
    assert refusal(code) == ExtractRefusal.UNDECODABLE


@pytest.mark.parametrize(
    "declared", ["utf-7", "zip", "rot13", "unicode_escape", "nonsense", "\0", "idna", ""]
)
def test_only_encodings_of_the_web_can_be_declared(declared: str) -> None:
    with pytest.raises(NotIngestible, match="neither UTF-8"):
        decode("Привет, мир".encode("cp1251"), declared=declared)


def test_utf8_takes_precedence_over_the_declared_encoding() -> None:
    assert decode("café".encode(), declared="iso-8859-1") == "café"


def test_a_few_broken_bytes_do_not_spoil_a_utf8_text() -> None:
    line = "Ein schöner Größenvergleich.\n"
    assert decode(line.encode() * 50 + b"\xc3\n" + line.encode()) == line * 50 + "\ufffd\n" + line


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\x7fELF\x02\x01\x01\0",
        b"text\0text",
        bytes(range(1, 256)),
        b"\x01\x02\x03 a few letters",
        b"ab\x00" * 20_000,
        b"log line\n" * 2000 + b"\0" * 500,
    ],
)
def test_binary_is_refused(data: bytes) -> None:
    assert refusal(data) == ExtractRefusal.BINARY


def test_a_late_nul_is_kept() -> None:
    before = "a line of a log\n" * 1000
    assert decode(before.encode() + b"\0after\n") == before + "\ufffdafter\n"


def test_terminal_colours_are_text() -> None:
    line = "\x1b[31merror\x1b[0m: out of \x1b[1mrope\x1b[0m\n"
    assert decode(line.encode()) == line


@pytest.mark.parametrize(
    "data", [b"\xff\xfea", b"\xff\xfe\x00\xd8a\x00", b"\x00\x00\xfe\xff\x00\x11\x00\x00"]
)
def test_broken_utf16_and_utf32_are_refused(data: bytes) -> None:
    assert refusal(data) == ExtractRefusal.UNDECODABLE


def test_the_first_bytes_tell_binary_from_text() -> None:
    assert looks_binary(b"GIF89a\0")
    assert not looks_binary("plain".encode("utf-16"))
    assert not looks_binary(b"plain")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=200))
def test_every_printable_text_survives(text: str) -> None:
    assert decode(text.removeprefix("\ufeff").encode()) == text.removeprefix("\ufeff")


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        text = decode(data)
    except NotIngestible:
        return
    assert "\0" not in text
    text.encode()
