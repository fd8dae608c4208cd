from __future__ import annotations

import re
import subprocess
import sys
import zlib

import pytest
from pypdf.errors import DependencyError

from agentctx.config.extras import install_hint
from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal, NotIngestible
from agentctx.ingest.extract.pdf import extract_pdf
from tests.ingest.extract import samples
from tests.ingest.extract.promises import SteppingClock, extracted, extracted_or_refused, number_of

_FLATE = "/Filter /FlateDecode"


def one_page(content: bytes, *, pages: int = 1, form: bytes = b"null") -> bytes:
    """A PDF whose pages, all the same, show the compressed `content`; /X is the form."""
    kids = " ".join(["4 0 R"] * pages)
    return samples.pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 5 0 R /Resources 7 0 R >>",
            samples.pdf_stream(zlib.compress(content), _FLATE),
            form,
            b"<< /Font << /F1 3 0 R >> /XObject << /X 6 0 R >> >>",
        ]
    )


def test_each_page_has_its_number() -> None:
    document = extracted("a.pdf", samples.pdf(["one (sloop)", "", "three ketch"]))
    assert document.text == "one (sloop)\n\nthree ketch"
    assert document.unit == "page"
    assert (number_of("sloop", document), number_of("ketch", document)) == (1, 3)


def test_a_pdf_that_the_empty_password_opens_is_read() -> None:
    assert extracted("a.pdf", samples.encrypted_pdf("")).text == "secret words"


def test_a_pdf_with_a_password_is_refused() -> None:
    assert extracted_or_refused("a.pdf", samples.encrypted_pdf("pass")) == ExtractRefusal.ENCRYPTED


def test_a_scanned_pdf_says_so() -> None:
    with pytest.raises(NotIngestible, match=r"has no text \(scanned\?\)"):
        extract_pdf(samples.pdf(["", ""]), ExtractLimits())


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n",
        b"%PDF-1.7\nstartxref\n9\n%%EOF",
        samples.pdf(["one"])[:-60],
        b"not a PDF at all",
        one_page(b"[[[[" * 50_000),
        one_page(b"0 " * 50_000_000),
    ],
    ids=["head only", "no table", "cut", "other", "nested", "inflating"],
)
def test_damage_is_reported(data: bytes) -> None:
    assert extracted_or_refused("a.pdf", data) == ExtractRefusal.DAMAGED


def test_nothing_is_printed_about_an_odd_pdf() -> None:
    program = (
        "import sys; from pathlib import PurePath; from agentctx.ingest.extract import extract\n"
        "print(extract(PurePath('a.pdf'), sys.stdin.buffer.read()).text)"
    )
    odd = re.sub(rb"startxref\n\d+", b"startxref\n7", samples.pdf(["one"]))
    done = subprocess.run([sys.executable, "-c", program], input=odd, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"one\n", b"")


def test_more_text_than_a_page_can_hold_stops_within_the_page() -> None:
    show = b"BT /F1 12 Tf " + b"(some text) Tj T* " * 300 + b"ET"
    form = samples.pdf_stream(
        zlib.compress(show), f"{_FLATE} /Type /XObject /Subtype /Form /Resources << /Font << /F1 3 0 R >> >>"
    )
    data = one_page(b"/X Do " * 20, form=form)
    limits = ExtractLimits(characters=5000, seconds=5000, clock=SteppingClock())
    assert extracted_or_refused("a.pdf", data, limits) == ExtractRefusal.TOO_LARGE


@pytest.mark.parametrize(
    "data",
    [
        one_page(b"BT (a) Tj " * 20_000),
        one_page(b"BT (a) Tj " * 10, pages=2000),
        b"%PDF-1.7\n" + b"x\n" * 20_000,
    ],
    ids=["a page", "many pages", "no end"],
)
def test_a_pdf_that_takes_too_long_is_given_up(data: bytes) -> None:
    limits = ExtractLimits(seconds=20_000, clock=SteppingClock())
    assert extracted_or_refused("a.pdf", data, limits) == ExtractRefusal.TOO_SLOW


def test_a_pdf_with_aes_is_refused_without_its_library() -> None:
    zeros = {
        name: "00" * size for name, size in (("U", 48), ("O", 48), ("UE", 32), ("OE", 32), ("Perms", 16))
    }
    strings = " ".join(f"/{name} <{value}>" for name, value in zeros.items())
    encrypt = (
        f"/Encrypt << /Filter /Standard /V 5 /R 6 /Length 256 /P -4 {strings} /StmF /StdCF /StrF /StdCF "
        "/CF << /StdCF << /CFM /AESV3 /Length 32 >> >> >> /ID [<00> <00>]"
    )
    data = samples.pdf(["x"]).replace(b"/Root 1 0 R", f"/Root 1 0 R {encrypt}".encode())
    with pytest.raises(NotIngestible) as refused:
        extract_pdf(data, ExtractLimits())
    assert refused.value.refusal == ExtractRefusal.ENCRYPTED


def test_without_the_library_for_aes_the_hint_installs_it_where_the_program_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_aes(*_: object) -> None:
        raise DependencyError("cryptography>=3.1 is required for AES algorithm")

    monkeypatch.setattr("pypdf.PdfReader", without_aes)
    with pytest.raises(NotIngestible) as refused:
        extract_pdf(samples.pdf(["x"]), ExtractLimits())
    assert refused.value.refusal == ExtractRefusal.ENCRYPTED
    assert refused.value.hint == install_hint("documents")


def test_spaces_without_end_do_not_hold_up_a_page() -> None:
    """Run in a child that can be killed: searching for the end of a run from each space would not end."""
    spaces = " " * 300_000
    content = f"BT /F1 1 Tf 0 9 Td (a{spaces}b) Tj 0 -2 Td (c{spaces}) Tj ET".encode()
    program = (
        "import sys; from pathlib import PurePath; from agentctx.ingest.extract import extract\n"
        "print(extract(PurePath('a.pdf'), sys.stdin.buffer.read()).text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=one_page(content), capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode() == f"a{spaces}b\nc\n"
