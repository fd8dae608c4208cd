"""Decodes bytes into text character by character, or detects that they are binary."""

from __future__ import annotations

import codecs
import re

from agentctx.ingest.extract.base import ExtractRefusal, NotIngestible

HEAD_BYTES = 8192
"""A NUL among these first bytes marks a file as binary, as in git and grep."""

# UTF-32 before UTF-16: its little-endian mark starts with that of UTF-16.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Without escapes (terminal colours), backspaces, bells and form feeds, which occur in logs and old texts.
_CONTROLS = re.compile("[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_SHARE = 0.02
_NUL_SHARE = 0.001
_FAULT_SHARE = 0.001

_HIGH = re.compile(rb"[\x80-\xff]+")
_UNDEFINED_IN_1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_HIGH_SHARE = 0.3
_RUN_LENGTH = 1.5

_DECLARABLE = frozenset(
    {
        *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
        *("iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7"),
        *("iso8859-8", "iso8859-9", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16"),
        *("koi8-r", "koi8-u", "cp866", "mac-roman", "gbk", "gb2312", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "shift_jis", "cp932", "euc_kr", "cp949", "tis-620", "cp874"),
    }
)


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file (`HEAD_BYTES` suffice) show that it is not text."""
    return _bom(head) is None and b"\0" in head[:HEAD_BYTES]


def decode(data: bytes, *, declared: str | None = None) -> str:
    """Decode `data` by its byte order mark, else as UTF-8, as `declared`, or as Windows-1252.

    The mark is dropped; everything else is kept, including line breaks. Invalid bytes in text that is
    otherwise UTF-8, and lone NULs far from the beginning, become U+FFFD.
    `declared` is used if it is a text encoding of the web that Python knows. Windows-1252 must be plausible:
    few bytes beyond ASCII, mostly isolated ones, like accented letters.

    Raises:
        NotIngestible: binary, or text in an undetectable encoding.
    """
    if looks_binary(data):
        raise _binary_error()
    bom = _bom(data)
    text = _decode_with_bom(data, *bom) if bom else _decode_without_bom(data, declared)
    return _reject_control_characters(text)


def _bom(data: bytes) -> tuple[bytes, str] | None:
    return next(((bom, name) for bom, name in _BOMS if data.startswith(bom)), None)


def _decode_with_bom(data: bytes, bom: bytes, encoding: str) -> str:
    if encoding == "utf-8":
        return _decode_without_bom(data[len(bom) :], None)
    try:
        return data[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise NotIngestible(ExtractRefusal.UNDECODABLE, f"not valid {encoding[:6].upper()}") from error


def _decode_without_bom(data: bytes, declared: str | None) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    text = _as_declared(data, declared) or _as_broken_utf8(data) or _as_western(data)
    if text is None:
        _reject_control_characters(data.decode("latin-1"))
        raise NotIngestible(
            ExtractRefusal.UNDECODABLE,
            "neither UTF-8 nor another recognised encoding",
            hint="Convert it to UTF-8.",
        )
    return text


def _as_declared(data: bytes, declared: str | None) -> str | None:
    try:
        name = codecs.lookup(declared or "").name
    except (LookupError, ValueError):
        return None
    if name == "iso8859-1":
        name = "cp1252"  # as browsers interpret that name
    return data.decode(name, "replace") if name in _DECLARABLE else None


def _as_broken_utf8(data: bytes) -> str | None:
    """Decode as UTF-8 if faults are rare: at most 0.1% (or one), and one per valid non-ASCII character."""
    text = data.decode("utf-8", "replace")
    faults = text.count("\ufffd")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    is_rare = faults <= max(1, len(text) * _FAULT_SHARE)
    return text if is_rare and faults <= beyond_ascii - faults else None


def _as_western(data: bytes) -> str | None:
    runs = _HIGH.findall(data)
    high = sum(map(len, runs))
    is_sparse = high <= len(data) * _HIGH_SHARE and high <= len(runs) * _RUN_LENGTH
    if not is_sparse or _UNDEFINED_IN_1252.search(data) or b"\0" in data:
        return None
    return data.decode("cp1252")


def _reject_control_characters(text: str) -> str:
    nuls = text.count("\0")
    if nuls > len(text) * _NUL_SHARE:
        raise _binary_error()
    if len(_CONTROLS.findall(text)) > len(text) * _CONTROL_SHARE:
        raise _binary_error()
    return text.replace("\0", "\ufffd") if nuls else text


def _binary_error() -> NotIngestible:
    return NotIngestible(ExtractRefusal.BINARY, "binary")
