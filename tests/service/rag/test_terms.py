"""The terms of a memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.terms import MemoryTerm, alternatives_in


def texts(text: str) -> list[tuple[str, ...]]:
    return [tuple(term.text for term in terms) for terms in alternatives_in(text)]


def only(text: str, word: str) -> MemoryTerm:
    return next(term for terms in alternatives_in(text) for term in terms if term.text == word)


def test_stop_words_and_punctuation_go_names_stay() -> None:
    found = texts("Never edit `app/gen/` (see openapi.yml), it is `--force`d.")
    assert found == [("edit",), ("app/gen/",), ("see",), ("openapi.yml",), ("--force`d",)]


def test_kinds() -> None:
    found = alternatives_in("-v a/b .env x_y tw-* 9:40 plain by-hand")
    kinds = {terms[0].text: terms[0].kind for terms in found}
    assert kinds == {
        "-v": "flag",
        "a/b": "name",
        ".env": "name",
        "x_y": "name",
        "tw-*": "name",
        "9:40": "word",
        "by-hand": "name",
    }


def test_alternatives() -> None:
    assert texts("down with -v / --volumes") == [("down",), ("-v", "--volumes")]
    assert texts("`a.env` or `b.env` differ") == [("a.env", "b.env"), ("differ",)]
    assert texts("ansible -b or by hand") == [("ansible",), ("-b",), ("hand",)]
    assert texts("push and merge") == [("push",), ("merge",)]


def test_what_is_said_of_a_term() -> None:
    assert only("apply without --dry-run", "--dry-run").is_excepted
    assert only("do not use --force here", "--force").is_denied
    assert only("they don't use --force", "--force").is_denied
    assert only("It is changed with ansible-vault edit.", "ansible-vault").is_means
    assert not only("Do not wait. Use --force", "--force").is_denied


@given(st.text(max_size=200))
def test_any_text_has_terms(text: str) -> None:
    assert all(alternatives_in(text))
