"""Checks the zip archives of Office files before a library unpacks them, and reads their XML."""

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
MAX_IN_MEMORY_BYTES = 64 * _MiB
"""Unpacked size of the parts that libraries hold in memory; twice the file's size is added, for pictures."""
MAX_IN_MEMORY_NODES = 6_000_000
"""Tags and attributes in XML that is parsed into a tree: at 200 bytes each, 1.2 GB in the worst case."""
MAX_RELATION_NODES = 400_000
"""Tags and attributes in relationship parts; a library compares each relationship with all parts."""
MAX_STREAMED_BYTES = 1024 * _MiB
"""Unpacked size of worksheets and their shared strings."""
MAX_STREAMED_NODES = 12_000_000
"""Tags and attributes in streamed XML. A worksheet is read row by row, but may be a single row."""

_STREAMED = ("xl/worksheets/", "xl/sharedStrings.xml")
_BEFORE_XML = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""Byte order marks and whitespace, with the NULs of UTF-16."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FLAG_ENCRYPTED = 1

_COMPOUND_FILE = bytes.fromhex("d0cf11e0a1b11ae1")
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")

_PIECE_BYTES = 65_536
# Possessive (`*+`), because crafted comments and spaces match in exponentially many ways. Office files have
# no document type; one would allow entities, which can grow without bound or refer to other files.
_PROLOG_WITHOUT_DTD = re.compile(r"\ufeff?(?:\s+|<\?.*?\?>|<!--.*?-->)*+<[^!?]", re.DOTALL)
Element = Any
"""An lxml element; lxml publishes no types."""

_CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_DROPPED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr"})
"""Deleted text, fallback copies of drawings for old readers, and properties."""


def checked_package(data: bytes, kind: str, budget: Budget) -> TimedBytes:
    """Return the file for a library to read, checked not to exhaust memory; `kind` is, say, "Word".

    Raises:
        NotIngestible: damaged, encrypted, the old binary format, too large unpacked, XML with a DTD, or
            over the time limit.
    """
    if data.startswith(_COMPOUND_FILE):
        raise _compound_file_error(data, kind)
    package = TimedBytes(data, budget)
    try:
        with zipfile.ZipFile(package) as archive:
            _check_members(archive.infolist(), len(data))
            _check_xml(archive)
    except NotIngestible:
        raise
    except Exception as error:  # zipfile raises anything from struct.error to zlib.error
        raise NotIngestible(ExtractRefusal.DAMAGED, f"damaged, or not in {kind} format") from error
    package.seek(0)
    return package


def package_members(data: bytes) -> frozenset[str]:
    """Return the names in the archive, or an empty set if it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return frozenset(archive.namelist())
    except Exception:  # noqa: BLE001 - as above; it is not a package
        return frozenset()


def _compound_file_error(data: bytes, kind: str) -> NotIngestible:
    if _ENCRYPTED_PACKAGE in data:
        return NotIngestible(ExtractRefusal.ENCRYPTED, "encrypted with a password")
    return NotIngestible(
        ExtractRefusal.UNSUPPORTED,
        f"in the {kind} format from before 2007",
        hint="Save it in the current format.",
    )


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if any(member.flag_bits & _FLAG_ENCRYPTED for member in members):
        raise NotIngestible(ExtractRefusal.ENCRYPTED, "encrypted with a password")
    if any(member.compress_type not in _METHODS for member in members):
        raise NotIngestible(ExtractRefusal.DAMAGED, "damaged: its compression method is not one of Office's")
    streamed = sum(member.file_size for member in members if _is_streamed(member.filename))
    held = sum(member.file_size for member in members) - streamed
    if len(members) > MAX_MEMBERS or streamed > MAX_STREAMED_BYTES or held > MAX_IN_MEMORY_BYTES + 2 * size:
        raise NotIngestible(
            ExtractRefusal.TOO_LARGE,
            f"too large: {len(members):,} parts, {(held + streamed) // _MiB:,} MiB unpacked",
        )


def _check_xml(archive: zipfile.ZipFile) -> None:
    left = {"relations": MAX_RELATION_NODES, "streamed": MAX_STREAMED_NODES, "in memory": MAX_IN_MEMORY_NODES}
    for member in archive.infolist():
        is_relations = member.filename.lower().endswith(".rels")
        group = "relations" if is_relations else "streamed" if _is_streamed(member.filename) else "in memory"
        left[group] -= _count_xml_nodes(archive, member)
        if left[group] < 0:
            raise NotIngestible(ExtractRefusal.TOO_LARGE, "too large: more XML tags than a document needs")


def _is_streamed(name: str) -> bool:
    return name.startswith(_STREAMED)


def _count_xml_nodes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Return an upper bound on the number of tags and attributes. Raises `NotIngestible` for a document type.

    The bytes decide whether a part is XML, because the libraries trust what the file declares.
    """
    pieces = _unpack(archive, member)
    head = next(pieces, b"")
    start = head.lstrip(_BEFORE_XML)
    if not (start.startswith(b"<") if start else len(head) == _PIECE_BYTES):
        return 0
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    if _PROLOG_WITHOUT_DTD.match(head.decode(encoding, "replace")) is None:
        raise NotIngestible(ExtractRefusal.DAMAGED, "damaged: not the XML that Office writes")
    return _count_nodes(head) + sum(map(_count_nodes, pieces))


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _count_nodes(piece: bytes) -> int:
    return piece.count(b"<") + piece.count(b"=")


def local_name(element: Element) -> str:
    """Return the tag without its namespace, or "" for comments and the like."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def descend(parent: Element, *names: str) -> Iterator[Element]:
    """Yield the nearest descendants with one of these names, in document order, without entering them."""
    for child in parent.iterchildren():
        name = local_name(child)
        if name in names:
            yield child
        elif name and name not in _DROPPED:
            yield from descend(child, *names)


def paragraph_text(paragraph: Element) -> str:
    """Return the visible text; paragraphs of text boxes inside it start new lines."""
    return "".join(_pieces(paragraph)).strip()


def table_rows(table: Element) -> Iterator[list[str]]:
    """Yield the cell texts row by row; the text of a nested table becomes part of its cell."""
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
