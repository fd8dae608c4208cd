from __future__ import annotations

import io
import struct
import zipfile

import pytest

from agentctx.ingest.extract import office_package
from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.builder import Budget
from agentctx.ingest.extract.office_package import checked_package
from tests.ingest.extract import samples
from tests.ingest.extract.promises import SteppingClock, extracted_or_refused

BODY = "word/document.xml"


def archive(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


def refusal(data: bytes, limits: ExtractLimits | None = None) -> ExtractRefusal:
    with pytest.raises(NotIngestible) as refused:
        checked_package(data, "Word", Budget(limits or ExtractLimits(), len(data)))
    return refused.value.refusal


@pytest.mark.parametrize(
    "prolog",
    ["", "\ufeff", "<?xml version='1.0'?>", "<?xml version='1.0'?>\n<!-- <!DOCTYPE in a comment --> \n"],
)
def test_xml_without_a_document_type_passes(prolog: str) -> None:
    data = archive(
        {
            "a.xml": f"{prolog}<a>&lt;!DOCTYPE</a>".encode(),
            "b.rels": b"",
            "c.png": b"\x89PNG <!DOCTYPE a>",
            "d": bytes(9),
        }
    )
    assert checked_package(data, "Word", Budget(ExtractLimits(), 1)).read() == data


@pytest.mark.parametrize(
    "prolog",
    [
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]>',
        '<!-- <a> --><!DOCTYPE a SYSTEM "file:///etc/passwd">',
        "<!-- " + "x" * 70_000 + ' --><!DOCTYPE a [<!ENTITY x "y">]>',
        "<!--" + "--><!--" * 9_000 + "<!DOCTYPE a>",
        " " * 65_536 + "<!DOCTYPE a>",
        " " * 65_536 + "<a>" + "<!DOCTYPE a>",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["a.xml", "a.rels", "a.png"])
def test_xml_with_a_document_type_is_refused_under_any_name(prolog: str, encoding: str, name: str) -> None:
    assert refusal(archive({name: f"{prolog}<a>&x;</a>".encode(encoding)})) == ExtractRefusal.DAMAGED


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_entities_never_reach_the_libraries(name: str) -> None:
    package, part = {
        "a.docx": (samples.word(), BODY),
        "a.pptx": (samples.slides(), "ppt/slides/slide1.xml"),
        "a.xlsx": (samples.workbook(), "xl/worksheets/sheet1.xml"),
    }[name]
    xml = samples.part(package, part)
    start = xml.index(b"?>") + 2 if xml.startswith(b"<?xml") else 0
    entities = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    changed = samples.repacked(package, {part: xml[:start] + entities + xml[start:]})
    assert extracted_or_refused(name, package) != ExtractRefusal.DAMAGED
    assert extracted_or_refused(name, changed) == ExtractRefusal.DAMAGED


@pytest.mark.parametrize(
    "parts",
    [
        {BODY: b" " * (office_package.MAX_IN_MEMORY_BYTES + 10_000_000)},
        {"xl/worksheets/sheet1.xml": b"<a/>" * (office_package.MAX_STREAMED_NODES + 1)},
        {BODY: b"<a/>" * (office_package.MAX_IN_MEMORY_NODES + 1)},
        {BODY: b"<a " + b"b='' " * (office_package.MAX_IN_MEMORY_NODES + 1)},
        {"_rels/.rels": b"<a/>" * (office_package.MAX_RELATION_NODES + 1)},
        {f"{number}.png": b"" for number in range(office_package.MAX_MEMBERS + 1)},
    ],
    ids=["bytes", "worksheet", "tags", "attributes", "relations", "parts"],
)
def test_bombs_are_refused(parts: dict[str, bytes]) -> None:
    assert refusal(archive(parts)) == ExtractRefusal.TOO_LARGE


def test_a_size_that_is_declared_too_small_does_not_deceive() -> None:
    data = archive({BODY: b"<a>" + b" " * 100_000 + b"</a>"})
    assert refusal(data.replace(struct.pack("<L", 100_007), struct.pack("<L", 10))) == ExtractRefusal.DAMAGED


def test_unpacking_looks_at_the_clock() -> None:
    data = archive({f"{number}.xml": b"<a/>" for number in range(100)})
    assert refusal(data, ExtractLimits(seconds=50, clock=SteppingClock())) == ExtractRefusal.TOO_SLOW


def test_unusual_compression_is_refused() -> None:
    assert refusal(archive({BODY: b"<a/>"}, zipfile.ZIP_LZMA)) == ExtractRefusal.DAMAGED


def test_encryption_and_the_old_format_are_reported() -> None:
    compound = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)
    assert refusal(compound) == ExtractRefusal.UNSUPPORTED
    assert refusal(compound + "EncryptedPackage".encode("utf-16-le")) == ExtractRefusal.ENCRYPTED
    encrypted = bytearray(archive({BODY: b"<a/>"}))
    directory = encrypted.index(b"PK\x01\x02")
    encrypted[directory + 8] |= 1
    assert refusal(bytes(encrypted)) == ExtractRefusal.ENCRYPTED


@pytest.mark.parametrize("data", [b"", b"PK", b"text", archive({BODY: b"<a/>"})[:-10]])
def test_a_file_that_is_not_an_archive_is_damaged(data: bytes) -> None:
    assert refusal(data) == ExtractRefusal.DAMAGED
