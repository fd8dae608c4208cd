from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.extract.base import ExtractRefusal, NotIngestible
from agentctx.ingest.extract.decode import DecodedText, decode, decode_as, looks_binary

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
    assert decode(mark + EMOJI.encode(encoding)).text == EMOJI


@pytest.mark.parametrize(
    "text", ["Größe: 3 µm, naïve café.", "El niño dijo «sí» — 5 €", "# coding\nname = 'Ærø'\n" * 50]
)
def test_western_text_is_read_as_windows_1252(text: str) -> None:
    assert decode(text.encode("cp1252")).text == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Привет, мир. Это текст.", "cp1251"), ("日本語のテキスト", "shift_jis"), ("中文文本", "gbk")],
)
def test_other_old_encodings_are_refused_rather_than_garbled(text: str, encoding: str) -> None:
    assert refusal(text.encode(encoding)) == ExtractRefusal.UNDECODABLE
    assert decode(text.encode(encoding), declared=encoding).text == text


def test_a_few_words_of_another_alphabet_are_not_western() -> None:
    code = "x = 1  # привет, прекрасный мир\n".encode("cp1251") + b"y = [x for x in range(9)]\n" * 20
    assert refusal(code) == ExtractRefusal.UNDECODABLE


@pytest.mark.parametrize(
    "declared", ["utf-7", "zip", "rot13", "unicode_escape", "nonsense", "\0", "idna", ""]
)
def test_only_encodings_of_the_web_can_be_declared(declared: str) -> None:
    with pytest.raises(NotIngestible, match="neither UTF-8"):
        decode("Привет, мир".encode("cp1251"), declared=declared)


def test_utf8_takes_precedence_over_the_declared_encoding() -> None:
    assert decode("café".encode(), declared="iso-8859-1").text == "café"


def test_a_few_broken_bytes_do_not_spoil_a_utf8_text() -> None:
    line = "Ein schöner Größenvergleich.\n"
    assert decode(line.encode() * 50 + b"\xc3\n" + line.encode()).text == line * 50 + "\ufffd\n" + line


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\x7fELF\x02\x01\x01\0",
        b"text\0" * 17,
        b"\0" * 9 + b"text",
        bytes(range(1, 256)),
        b"\x01\x02\x03 a few letters",
        b"ab\x00" * 20_000,
        b"log line\n" * 2000 + b"\0" * 500,
    ],
)
def test_binary_is_refused(data: bytes) -> None:
    assert refusal(data) == ExtractRefusal.BINARY


BAD_BYTES = [b"\0", b"\x81", b"\xff\x81"]


@pytest.mark.parametrize(
    ("size", "bad", "is_text"),
    [
        (60, 16, True),
        (60, 17, False),
        (1_700, 17, True),
        (1_700, 18, False),
        (20_000, 100, True),
        (20_000, 101, False),
    ],
)
@pytest.mark.parametrize("byte", BAD_BYTES)
def test_a_few_bytes_that_do_not_decode_are_replaced_and_counted(
    size: int, bad: int, is_text: bool, byte: bytes
) -> None:
    data = (byte * bad)[:bad] + b"a" * (size - bad)
    if is_text:
        decoded = decode(data)
        assert decoded.replaced == bad
        assert decoded.notes == (f"bytes that do not decode, replaced: {bad}",)
        assert decoded.text.endswith("a" * (size - bad))
        assert "\0" not in decoded.text
    else:
        assert refusal(data) in (ExtractRefusal.BINARY, ExtractRefusal.UNDECODABLE)


def test_a_file_that_says_nothing_else_is_refused() -> None:
    for data in (b"\0" * 5, b"\xff" * 5, "日本語のテキスト".encode("shift_jis")):
        with pytest.raises(NotIngestible):
            decode(data)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет, мир. Это текст.", "cp1251"),
        ("日本語のテキスト", "shift_jis"),
        ("日本語", "iso2022_jp"),
        ("rule one\nrule two", "utf-16-le"),
        ("Größe", "cp1252"),
    ],
)
def test_a_named_encoding_is_used(text: str, encoding: str) -> None:
    assert decode_as(text.encode(encoding), encoding) == DecodedText(text)


def test_utf8_and_a_mark_win_over_a_named_encoding() -> None:
    assert decode_as("Größe".encode(), "cp1251").text == "Größe"
    assert decode_as("Größe".encode("utf-16"), "cp1251").text == "Größe"


def test_text_that_is_not_in_the_named_encoding_is_refused() -> None:
    with pytest.raises(NotIngestible, match="not valid shift_jis"):
        decode_as(b"a\x81\xff" * 20, "shift_jis")


def test_a_late_nul_is_kept() -> None:
    before = "a line of a log\n" * 1000
    assert decode(before.encode() + b"\0after\n").text == before + "\ufffdafter\n"


def test_terminal_colours_are_text() -> None:
    line = "\x1b[31merror\x1b[0m: out of \x1b[1mrope\x1b[0m\n"
    assert decode(line.encode()).text == line


@pytest.mark.parametrize(
    "data", [b"\xff\xfea", b"\xff\xfe" + b"\x00\xd8a\x00" * 17, b"\x00\x00\xfe\xff\x00\x11\x00\x00"]
)
def test_broken_utf16_and_utf32_are_refused(data: bytes) -> None:
    assert refusal(data) == ExtractRefusal.UNDECODABLE


def test_the_first_bytes_tell_binary_from_text() -> None:
    assert looks_binary(b"GIF89a" + b"\0" * 101)
    assert not looks_binary(b"text" + b"\0" * 100)
    assert not looks_binary("plain".encode("utf-16"))
    assert not looks_binary(b"plain")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=200))
def test_every_printable_text_survives(text: str) -> None:
    assert decode(text.removeprefix("\ufeff").encode()).text == text.removeprefix("\ufeff")


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        text = decode(data).text
    except NotIngestible:
        return
    assert "\0" not in text
    text.encode()
