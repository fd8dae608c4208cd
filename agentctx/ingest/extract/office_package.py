"""The zip archives that Office files are, checked before a library unpacks them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from agentctx.ingest.extract.base import ExtractRefusal, NotIngestible
from agentctx.ingest.extract.builder import Budget, TimedBytes

_MiB = 1024 * 1024

MAX_MEMBERS = 5_000
MAX_HELD_BYTES = 64 * _MiB
"""Unpacked, of the parts the libraries hold in memory; besides twice the size of the file, for pictures."""
MAX_HELD_NODES = 6_000_000
"""Tags and attributes in the XML that becomes a tree: at 200 bytes each, 1.2 GB in the worst of cases."""
MAX_RELATION_NODES = 400_000
"""Those that say which part needs which: a library compares each with all the parts."""
MAX_STREAMED_BYTES = 1024 * _MiB
"""Unpacked, of worksheets and the strings they share."""
MAX_STREAMED_NODES = 12_000_000
"""A worksheet is read row by row, but may be a single row."""

_STREAMED = ("xl/worksheets/", "xl/sharedStrings.xml")
_BEFORE_XML = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""Byte order marks and spaces; NULs come from UTF-16."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FLAG_ENCRYPTED = 1

_COMPOUND_FILE = bytes.fromhex("d0cf11e0a1b11ae1")
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")

_PIECE_BYTES = 65_536
# Possessive (`*+`), because comments and spaces can be made to match in endless ways. No Office file has a
# document type; with one come entities, which can grow without bound or name other files.
_PROLOG_WITHOUT_DTD = re.compile(r"\ufeff?(?:\s+|<\?.*?\?>|<!--.*?-->)*+<[^!?]", re.DOTALL)
Element = Any
"""An lxml element; lxml publishes no types."""

_CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_DROPPED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr"})
"""Deleted text, the copies of drawings for old readers, and properties."""


def checked_package(data: bytes, kind: str, budget: Budget) -> TimedBytes:
    """The file for the library to read, if it is not made to exhaust memory. `kind` is such as "Word".

    Raises:
        NotIngestible: damaged, encrypted, the old binary format, too large unpacked, XML with a DTD, or
            over the time.
    """
    if data.startswith(_COMPOUND_FILE):
        raise _compound_file(data, kind)
    package = TimedBytes(data, budget)
    try:
        with zipfile.ZipFile(package) as archive:
            _check_members(archive.infolist(), len(data))
            _check_xml(archive)
    except NotIngestible:
        raise
    except Exception as error:  # zipfile raises anything from struct.error to zlib.error
        raise NotIngestible(ExtractRefusal.DAMAGED, f"damaged, or not of the {kind} format") from error
    package.seek(0)
    return package


def package_members(data: bytes) -> frozenset[str]:
    """The names in the archive, none if it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return frozenset(archive.namelist())
    except Exception:  # noqa: BLE001 - as above; the answer is that this is not a package
        return frozenset()


def _compound_file(data: bytes, kind: str) -> NotIngestible:
    if _ENCRYPTED_PACKAGE in data:
        return NotIngestible(ExtractRefusal.ENCRYPTED, "encrypted with a password")
    return NotIngestible(
        ExtractRefusal.UNSUPPORTED, f"the {kind} format of before 2007", hint="Save it in the current format."
    )


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if any(member.flag_bits & _FLAG_ENCRYPTED for member in members):
        raise NotIngestible(ExtractRefusal.ENCRYPTED, "encrypted with a password")
    if any(member.compress_type not in _METHODS for member in members):
        raise NotIngestible(ExtractRefusal.DAMAGED, "damaged: compressed in a way Office does not know")
    streamed = sum(member.file_size for member in members if _streamed(member.filename))
    held = sum(member.file_size for member in members) - streamed
    if len(members) > MAX_MEMBERS or streamed > MAX_STREAMED_BYTES or held > MAX_HELD_BYTES + 2 * size:
        raise NotIngestible(
            ExtractRefusal.TOO_LARGE,
            f"too large: {len(members):,} parts, {(held + streamed) // _MiB:,} MiB unpacked",
        )


def _check_xml(archive: zipfile.ZipFile) -> None:
    left = {_relations: MAX_RELATION_NODES, _streamed: MAX_STREAMED_NODES, _held: MAX_HELD_NODES}
    for member in archive.infolist():
        part_class = next(belongs for belongs in left if belongs(member.filename))
        left[part_class] -= _xml_nodes(archive, member)
        if left[part_class] < 0:
            raise NotIngestible(ExtractRefusal.TOO_LARGE, "too large: more XML tags than a document needs")


def _relations(name: str) -> bool:
    return name.lower().endswith(".rels")


def _streamed(name: str) -> bool:
    return name.startswith(_STREAMED)


def _held(_: str) -> bool:
    return True


def _xml_nodes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """At most how many tags and attributes there are. Raises `NotIngestible` for a document type.

    Whether a part is XML is seen in its bytes: the libraries follow what the file declares.
    """
    pieces = _unpacked(archive, member)
    head = next(pieces, b"")
    if not _may_be_xml(head):
        return 0
    _check_prolog(head)
    return _nodes(head) + sum(map(_nodes, pieces))


def _may_be_xml(head: bytes) -> bool:
    start = head.lstrip(_BEFORE_XML)
    return start.startswith(b"<") if start else len(head) == _PIECE_BYTES


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _nodes(piece: bytes) -> int:
    return piece.count(b"<") + piece.count(b"=")


def _check_prolog(head: bytes) -> None:
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    prolog = head.decode(encoding, "replace")
    if _PROLOG_WITHOUT_DTD.match(prolog) is None:
        raise NotIngestible(ExtractRefusal.DAMAGED, "damaged: not the XML that Office writes")


def local_name(element: Element) -> str:
    """The tag without its namespace; nothing for comments and the like."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def descend(parent: Element, *names: str) -> Iterator[Element]:
    """The nearest descendants with one of these names, in document order; they are not looked into."""
    for child in parent.iterchildren():
        name = local_name(child)
        if name in names:
            yield child
        elif name and name not in _DROPPED:
            yield from descend(child, *names)


def paragraph_text(paragraph: Element) -> str:
    """The text as it is seen; the paragraphs of text boxes in it begin new lines."""
    return "".join(_pieces(paragraph)).strip()


def table_rows(table: Element) -> Iterator[list[str]]:
    """The texts of the cells, row by row; a table within a cell is read into the cell."""
    for row in descend(table, "tr"):
        yield [" ".join(_cell_texts(cell)) for cell in descend(row, "tc")]


def _cell_texts(cell: Element) -> Iterator[str]:
    for block in descend(cell, "p", "tbl"):
        if local_name(block) == "p":
            yield paragraph_text(block)
        else:
            yield from (text for row in table_rows(block) for text in row)


def _pieces(element: Element) -> Iterator[str]:
    for child in element.iterchildren():
        name = local_name(child)
        if name == "t":
            yield child.text or ""
        elif name in _CHARACTERS:
            yield _CHARACTERS[name]
        elif name and name not in _DROPPED:
            if name == "p":
                yield "\n"
            yield from _pieces(child)
