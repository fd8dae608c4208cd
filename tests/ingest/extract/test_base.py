from __future__ import annotations

import sys
import warnings

import pytest

from agentctx.ingest.extract.base import ExtractedText, ExtractRefusal, NotIngestible, documents_library
from agentctx.ingest.extract.registry import extract
from tests.ingest.extract.test_registry import SAMPLES, path_of


@pytest.mark.parametrize(
    ("name", "library", "kind"),
    [
        ("a.pdf", "pypdf", "PDF"),
        ("a.docx", "docx", "Word"),
        ("a.pptx", "pptx", "PowerPoint"),
        ("a.xlsx", "openpyxl", "Excel"),
    ],
)
def test_a_missing_library_says_how_to_install_it(
    name: str, library: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = SAMPLES[name]()
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NotIngestible, match=f"{kind} files need the documents extra") as refused:
        extract(path_of(name), data)
    assert refused.value.refusal == ExtractRefusal.NEEDS_EXTRA
    assert "pypdf\\[crypto\\]" in refused.value.hint


def test_text_html_and_notebooks_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pypdf", "docx", "pptx", "openpyxl", "lxml"):
        monkeypatch.setitem(sys.modules, library, None)
    for name in ("a.html", "a.ipynb", "a.txt"):
        assert isinstance(extract(path_of(name), SAMPLES[name]()), ExtractedText)


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (KeyError("x"), ExtractRefusal.DAMAGED),
        (RecursionError(), ExtractRefusal.DAMAGED),
        (MemoryError(), ExtractRefusal.TOO_LARGE),
        (NotIngestible(ExtractRefusal.EMPTY, "empty"), ExtractRefusal.EMPTY),
    ],
)
def test_whatever_a_library_raises_becomes_a_refusal(error: Exception, refusal: ExtractRefusal) -> None:
    with pytest.raises(NotIngestible) as refused, documents_library("PDF"):
        raise error
    assert refused.value.refusal == refusal


def test_an_interruption_gets_through() -> None:
    with pytest.raises(KeyboardInterrupt), documents_library("PDF"):
        raise KeyboardInterrupt


def test_warnings_of_libraries_go_nowhere_and_others_are_as_before() -> None:
    with documents_library("PDF"):
        warnings.warn("an oddity", stacklevel=1)
    with pytest.raises(UserWarning, match="ours"):
        warnings.warn("ours", stacklevel=1)
