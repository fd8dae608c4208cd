from __future__ import annotations

import re

import pytest

from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal
from tests.ingest.extract import samples
from tests.ingest.extract.promises import SteppingClock, extracted, extracted_or_refused, number_of, text_of

BODY = "word/document.xml"

READABLE = """\
# Harbour plan

The first paragraph.

## Ships

- sloop
- ketch

| Name | Masts |
| Ann | 2 |

The end. \N{ANCHOR}"""


def with_body(xml: str) -> bytes:
    """The sample with this XML at the beginning of its body."""
    package = samples.word()
    body = samples.part(package, BODY)
    assert b"<w:body>" in body
    return samples.repacked(package, {BODY: body.replace(b"<w:body>", b"<w:body>" + xml.encode())})


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def first_block(xml: str) -> str:
    return text_of("a.docx", with_body(xml)).partition("\n\n# Harbour")[0]


def test_a_document_becomes_readable_text() -> None:
    document = extracted("a.docx", samples.word())
    assert document.text == READABLE
    assert document.unit == "line"


def test_line_numbers_match_the_text() -> None:
    assert (
        number_of("sloop", extracted("a.docx", samples.word())) == READABLE.split("\n").index("- sloop") + 1
    )


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", "a\tb\nc"),
        ("<w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink></w:p>", "link"),
        (
            "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del></w:p>",
            "new",
        ),
        ("<w:p><w:r><w:t>a</w:t></w:r><w:del><w:r><w:t>old</w:t></w:r></w:del></w:p>", "a"),
        (
            "<w:p><w:r><mc:AlternateContent xmlns:mc='m'>{}</mc:AlternateContent></w:r></w:p>".format(
                "".join(f"<mc:{which}>{paragraph('once')}</mc:{which}>" for which in ("Choice", "Fallback"))
            ),
            "once",
        ),
        (f"<w:sdt><w:sdtContent>{paragraph('controlled')}</w:sdtContent></w:sdt>", "controlled"),
        (f"<w:p><w:r><w:t>a</w:t><w:pict>{paragraph('boxed')}</w:pict></w:r></w:p>", "a\nboxed"),
        (paragraph("a", '<w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr>'), "  - a"),
        (paragraph("a", '<w:numPr><w:ilvl w:val="99999999999"/></w:numPr>'), "  " * 8 + "- a"),
        (paragraph("a", '<w:pStyle w:val="Heading9"/>'), "###### a"),
        (paragraph("a", '<w:pStyle w:val="Unknown"/>'), "a"),
        (paragraph(" ") + paragraph("b"), "b"),
        ("<!-- a comment --><?a b?>" + paragraph("b"), "b"),
    ],
)
def test_word_features_are_extracted(xml: str, text: str) -> None:
    assert first_block(xml) == text


def test_headings_by_outline_level_whatever_the_style_is_called() -> None:
    package = with_body(paragraph("Titel", '<w:pStyle w:val="Meins"/>'))
    styles = samples.part(package, "word/styles.xml").replace(
        b"</w:styles>",
        b'<w:style w:styleId="Meins"><w:name w:val="Mein Stil"/>'
        b'<w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
        b"</w:styles>",
    )
    data = samples.repacked(package, {"word/styles.xml": styles})
    assert text_of("a.docx", data).startswith("### Titel\n")


def test_a_table_in_a_table_is_read_into_its_cell() -> None:
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('b')}</w:tc><w:tc>{paragraph('c')}</w:tc></w:tr></w:tbl>"
    outer = f"<w:tbl><w:tr><w:tc>{paragraph('a')}{inner}</w:tc><w:tc>{paragraph('d')}</w:tc></w:tr></w:tbl>"
    assert first_block(outer) == "| a b c | d |"


def test_deep_nesting_is_read_or_refused() -> None:
    shallow = with_body("<w:sdt>" * 200 + paragraph("a") + "</w:sdt>" * 200)
    assert text_of("a.docx", shallow).startswith("a\n")
    deep = with_body("<w:sdt>" * 100_000)
    assert extracted_or_refused("a.docx", deep) == ExtractRefusal.DAMAGED


def test_a_document_that_takes_too_long_is_given_up() -> None:
    data = with_body("<w:p/>" * 3000)
    limits = ExtractLimits(seconds=3000, clock=SteppingClock())
    assert extracted_or_refused("a.docx", data, limits) == ExtractRefusal.TOO_SLOW


def test_a_document_without_text_is_empty() -> None:
    import docx

    assert extracted_or_refused("a.docx", samples.written(docx.Document().save)) == ExtractRefusal.EMPTY


FIRST = "ppt/slides/slide1.xml"


def with_shapes(xml: str) -> bytes:
    """The sample with this XML after the shapes of its first slide."""
    package = samples.slides()
    slide = samples.part(package, FIRST)
    assert b"</p:spTree>" in slide
    return samples.repacked(package, {FIRST: slide.replace(b"</p:spTree>", xml.encode() + b"</p:spTree>")})


def shape(text: str, role: str = "") -> str:
    return (
        f"<p:sp><p:nvSpPr><p:nvPr>{role}</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r>"
        "</a:p></p:txBody></p:sp>"
    )


def test_titles_texts_tables_and_notes_by_slide() -> None:
    deck = extracted("a.pptx", samples.slides())
    assert deck.text == (
        "# Harbour plan\n\nsloop\nketch\n\nNotes: Say hello first.\n\n| Name | Masts |\n| Ann | 2 |"
    )
    assert deck.unit == "slide"
    assert (number_of("hello", deck), number_of("Ann", deck)) == (1, 3)


def test_groups_are_read_but_master_content_is_not() -> None:
    group = f"<p:grpSp><p:grpSp>{shape('grouped')}</p:grpSp></p:grpSp>"
    data = with_shapes(group + shape("17", '<p:ph type="sldNum"/>') + shape("Co.", '<p:ph type="ftr"/>'))
    text = text_of("a.pptx", data)
    assert "\n\ngrouped\n\nNotes" in text
    assert "17" not in text
    assert "Co." not in text


def test_line_breaks_within_a_paragraph_are_kept() -> None:
    data = with_shapes(shape("a</a:t></a:r><a:br/><a:r><a:t>b"))
    assert "\n\na\nb\n\n" in text_of("a.pptx", data)


def test_a_deck_that_takes_too_long_is_given_up() -> None:
    package = samples.slides()
    deck = samples.part(package, "ppt/presentation.xml")
    blank = re.findall(rb"<p:sldId [^>]*/>", deck)[1]
    data = samples.repacked(package, {"ppt/presentation.xml": deck.replace(blank, blank * 2000)})
    assert (
        extracted_or_refused("a.pptx", data, ExtractLimits(seconds=2000, clock=SteppingClock()))
        == ExtractRefusal.TOO_SLOW
    )


def test_a_deck_without_text_is_empty() -> None:
    import pptx

    assert extracted_or_refused("a.pptx", samples.written(pptx.Presentation().save)) == ExtractRefusal.EMPTY
