"""Decodes bytes into text character by character, or detects that they are binary."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from agentctx.ingest.extract.base import ExtractRefusal, NotIngestible

HEAD_BYTES = 8192
"""How much of a file is read first: many NULs among these bytes mark it as binary."""
_MOST_FAULTS = 100
_FREE_FAULTS = 16
_CUT = 3
"""Bytes of a character that is cut at the end of the head."""
_MARK = "\ufffd"

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

_UNDECODED = re.compile("[\udc80-\udcff]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f\ufffd]")
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


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text, and how many bytes of it, NULs among them, could not be decoded and became U+FFFD."""

    text: str
    replaced: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say in the report."""
        return (f"bytes that do not decode, replaced: {self.replaced}",) if self.replaced else ()


def tolerated(size: int) -> int:
    """Return how many bytes of a file may fail to decode: 1 %, but at least 16 and at most 100."""
    return min(_MOST_FAULTS, max(_FREE_FAULTS, size // 100))


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file (`HEAD_BYTES` suffice) show that it is not text."""
    head = head[:HEAD_BYTES]
    nuls = head.count(0)
    if not nuls or _bom(head):
        return False
    is_garbled = len(_UNDECODED.findall(head.decode("utf-8", "surrogateescape"))) > _MOST_FAULTS + _CUT
    return nuls > _MOST_FAULTS or (is_garbled and _UNDEFINED_IN_1252.search(head) is not None)


def decode(data: bytes, *, declared: str | None = None) -> DecodedText:
    """Decode `data` by its byte order mark, else as UTF-8, as `declared`, or as Windows-1252.

    The mark is dropped; everything else is kept, including line breaks. A `tolerated` number of bytes may
    fail: each, and each NUL, becomes U+FFFD. `declared` is used if it is a text encoding of the web that
    Python knows. Windows-1252 must be plausible: few bytes beyond ASCII, mostly isolated ones, like accented
    letters.

    Raises:
        NotIngestible: binary, or text in an undetectable encoding.
    """
    bom = _bom(data)
    if bom is None and data.count(0) > tolerated(len(data)):
        raise _binary_error()
    decoded = _decode_with_bom(data, *bom) if bom else _decode_without_bom(data, declared)
    return _without_nuls(decoded, len(data))


def decode_as(data: bytes, encoding: str) -> DecodedText:
    """Decode `data` by its byte order mark, or in the encoding that the user named.

    Text beyond ASCII that is valid UTF-8 is read as such, whatever the name: other encodings hardly ever
    look like that.

    Raises:
        NotIngestible: more than the `tolerated` number of bytes fail, or it is binary.
    """
    if _bom(data) or (_is_utf8(data) and not data.isascii()):
        return decode(data)
    text = data.decode(encoding, "replace")
    return _without_nuls(_within_tolerance(text, text.count(_MARK), len(data), encoding), len(data))


def _bom(data: bytes) -> tuple[bytes, str] | None:
    return next(((bom, name) for bom, name in _BOMS if data.startswith(bom)), None)


def _decode_with_bom(data: bytes, bom: bytes, encoding: str) -> DecodedText:
    if encoding == "utf-8":
        return _decode_without_bom(data[len(bom) :], None)
    text = data[len(bom) :].decode(encoding, "replace")
    faults = text.count(_MARK) - data.count(_MARK.encode(encoding))
    return _within_tolerance(text, max(0, faults), len(data), encoding[:6].upper())


def _decode_without_bom(data: bytes, declared: str | None) -> DecodedText:
    try:
        return DecodedText(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    if text := _as_declared(data, declared):
        return DecodedText(text)
    faults = len(_UNDECODED.findall(data.decode("utf-8", "surrogateescape")))
    broken = DecodedText(data.decode("utf-8", "replace"), faults)
    is_tolerable = faults + data.count(0) <= tolerated(len(data)) and not _is_mostly(faults, broken.text)
    if is_tolerable and faults <= len(_BEYOND_ASCII.findall(broken.text)):
        return broken
    if (western := _as_western(data)) is not None:
        return DecodedText(western)
    if is_tolerable:
        return broken
    _without_nuls(DecodedText(data.decode("latin-1")), len(data))
    raise NotIngestible(
        ExtractRefusal.UNDECODABLE,
        "neither UTF-8 nor another recognised encoding",
        hint="Name its encoding with --encoding, or convert it to UTF-8.",
    )


def _as_declared(data: bytes, declared: str | None) -> str | None:
    try:
        name = codecs.lookup(declared or "").name
    except (LookupError, ValueError):
        return None
    if name == "iso8859-1":
        name = "cp1252"  # as browsers interpret that name
    return data.decode(name, "replace") if name in _DECLARABLE else None


def _as_western(data: bytes) -> str | None:
    runs = _HIGH.findall(data)
    high = sum(map(len, runs))
    is_sparse = high <= len(data) * _HIGH_SHARE and high <= len(runs) * _RUN_LENGTH
    return data.decode("cp1252") if is_sparse and not _UNDEFINED_IN_1252.search(data) else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _within_tolerance(text: str, faults: int, size: int, encoding: str) -> DecodedText:
    if faults > tolerated(size) or _is_mostly(faults, text):
        raise NotIngestible(ExtractRefusal.UNDECODABLE, f"not valid {encoding}")
    return DecodedText(text, faults)


def _without_nuls(decoded: DecodedText, size: int) -> DecodedText:
    """Replace NULs; refuse a text with too many of them, or of other control characters."""
    text, nuls = decoded.text, decoded.text.count("\0")
    replaced = decoded.replaced + nuls
    if replaced > tolerated(size) or len(_CONTROLS.findall(text)) > len(text) * _CONTROL_SHARE:
        raise _binary_error()
    if not replaced:
        return decoded
    text = text.replace("\0", _MARK)
    if _is_mostly(replaced, text):
        raise _binary_error()
    return DecodedText(text, replaced)


def _is_mostly(faults: int, text: str) -> bool:
    """Whether more of a text is lost than is left of it."""
    return faults * 2 > len(text)


def _binary_error() -> NotIngestible:
    return NotIngestible(ExtractRefusal.BINARY, "binary")
