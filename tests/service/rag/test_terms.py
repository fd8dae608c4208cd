"""The terms of a memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.terms import MemoryTerm, TermGroup, term_groups


def texts(text: str) -> list[tuple[str, ...]]:
    return [tuple(term.text for term in group.terms) for group in term_groups(text)]


def only(text: str, word: str) -> tuple[TermGroup, MemoryTerm]:
    for group in term_groups(text):
        for term in group.terms:
            if term.text == word:
                return group, term
    raise AssertionError(word)


def test_stop_words_and_punctuation_go_names_stay() -> None:
    found = texts("Never edit `app/gen/` (see openapi.yml), it is `--force`d.")
    assert found == [("edit",), ("app/gen/",), ("see",), ("openapi.yml",), ("--force`d",)]


def test_kinds() -> None:
    kinds = {
        group.terms[0].text: group.kind for group in term_groups("-v a/b .env x_y tw-* 9:40 plain by-hand")
    }
    assert kinds == {
        "-v": "flag",
        "a/b": "name",
        ".env": "name",
        "x_y": "name",
        "tw-*": "name",
        "9:40": "word",
        "by-hand": "dashed",
    }


def test_alternatives() -> None:
    assert texts("down with -v / --volumes") == [("down",), ("-v", "--volumes")]
    assert texts("Opening ssh, scp or rsync") == [("Opening",), ("ssh", "scp", "rsync")]
    assert texts("`a.env` and `b.env` differ") == [("a.env", "b.env"), ("differ",)]
    assert texts("push and merge") == [("push",), ("merge",)]


def test_an_alternative_of_another_kind_makes_a_term_optional() -> None:
    assert only("escalation by ansible -b or by hand", "-b")[0].is_optional


def test_what_is_said_of_a_term() -> None:
    assert only("apply without --dry-run", "--dry-run")[1].is_excepted
    assert only("do not use --force here", "--force")[1].is_denied
    assert only("they don't use --force", "--force")[1].is_denied
    assert only("It is changed with ansible-vault edit.", "ansible-vault")[1].is_means
    assert not only("Do not wait. Use --force", "--force")[1].is_denied


def test_conditions_are_not_of_the_head() -> None:
    assert only("alembic upgrade head after merging main", "head")[0].is_head
    assert not only("alembic upgrade head after merging main", "main")[0].is_head


@given(st.text(max_size=200))
def test_any_text_has_terms(text: str) -> None:
    assert all(group.terms for group in term_groups(text))
