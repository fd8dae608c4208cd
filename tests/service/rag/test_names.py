"""What a text names, by form and place."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.names import Name, are_twins, is_same, names_of


def named(text: str) -> list[tuple[str, str]]:
    return [(name.kind, name.value) for name in names_of(text).exact]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what was QRS-1234 about", ("qrs-#", "qrs-1234")),
        ("see issue #481", ("issue #", "481")),
        ("upgrade to v2.3.1 now", ("version", "2.3.1")),
        ("commit 9f3a77b1 broke it", ("hash", "9f3a77b1")),
        ("10.2.8.41 is down", ("ip", "10.2.8.41")),
        ("open https://api.corp.example/v1", ("id", "api.corp.example/v1")),
        ("what is on localhost:8080", ("port #", "8080")),
        ("which service has port 9090?", ("port #", "9090")),
        ("error E0502 in the log", ("e#", "e0502")),
        ("we get HTTP 404", ("http #", "404")),
        ("exit code 137", ("code #", "137")),
        ("edit src/auth/login.py", ("id", "src/auth/login.py")),
        ("call parseHeader twice", ("id", "parse_header")),
        ("call parse_header twice", ("id", "parse_header")),
        ("rooms 12 and 14 are closed", ("room #", "14")),
        ("console of bench B", ("bench #", "b")),
        ("invoice number 4711 is late", ("invoice #", "4711")),
        ("a bill of 1,249.50 EUR", ("money", "1249.50")),
        ("a bill of \u20ac1.249,50", ("money", "1249.50")),
        ("download the production logs", ("env", "prod")),
        ("restore it on dev", ("env", "dev")),
        ("restore the test database", ("env", "test")),
        ("on the 3rd of November", ("date", "*-11-03")),
    ],
)
def test_a_name_has_a_kind_and_one_value_for_all_its_forms(text: str, expected: tuple[str, str]) -> None:
    assert expected in named(text)


@pytest.mark.parametrize(
    "text",
    [
        "the meeting is at 14:30",
        "wait 30s and retry after 46 hours",
        "run the test before you develop anything",
        "we live in a small house",
        "the stage is set for a demo",
        "each job starts a test database",
        "I may go on Monday",
    ],
)
def test_ordinary_words_times_and_amounts_name_nothing(text: str) -> None:
    assert [name for name in names_of(text).exact if not name.is_amount] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cache-a", "cache-b"),
        ("uat.shop.example", "demo.shop.example"),
        ("mail_tx", "sms_tx"),
        ("src/auth/login.py", "src/auth/logout.py"),
        ("fee_rounding", "money_rounding"),
    ],
)
def test_identifiers_with_half_of_their_parts_in_common_are_twins(one: str, other: str) -> None:
    assert are_twins(Name("id", one), Name("id", other))
    assert are_twins(Name("id", other), Name("id", one))


@pytest.mark.parametrize(
    ("one", "other"),
    [("pyproject.toml", "deny.toml"), ("cache-a", "queue-b"), ("scale_factor", "vacuum_scale_factor")],
)
def test_an_extension_or_a_longer_form_makes_no_twins(one: str, other: str) -> None:
    assert not are_twins(Name("id", one), Name("id", other))


def test_only_code_and_numbers_tell_one_thing_from_all_others() -> None:
    exact = names_of("QRS-12, stateFlow, StateFlow, src/a.py, self-hosted, v1.2.3, May 2026, prod").exact
    assert {name.value for name in exact if name.is_exact} == {"qrs-12", "state_flow", "src/a.py", "1.2.3"}


def test_a_version_is_the_same_as_one_that_says_less() -> None:
    assert is_same(Name("version", "2.3"), Name("version", "2.3.1"))
    assert not is_same(Name("version", "2.3"), Name("version", "2.30.1"))


def test_what_limits_or_exemplifies_is_bound() -> None:
    assert names_of("since 2.0.1").exact == [Name("version", "2.0.1", is_bound=True)]
    assert names_of("above 500 EUR").exact == [Name("money", "500.00", is_bound=True)]
    assert Name("money", "500.00") in names_of("paid 500 EUR").exact


@given(st.text(alphabet=string.printable + "\u00e9\u4e2d\u20ac", max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    found = names_of(text)
    assert all(name.value and name.value == name.value.lower() for name in found.exact)
    assert found.acting is not None
    assert found.proper.keys() <= found.words
