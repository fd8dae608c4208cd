from __future__ import annotations

import re

from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal
from tests.ingest.extract import samples
from tests.ingest.extract.promises import SteppingClock, extracted, extracted_or_refused, number_of, text_of

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
