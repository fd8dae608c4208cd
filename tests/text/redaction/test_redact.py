"""Properties of redaction, whatever the text."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.text.redaction.redactor import MAX_PASSES, SecretFinding, redact
from agentctx.text.redaction.rules import RuleFields, SecretRule, SecretRules, load_rules
from tests.text.redaction.corpus import KINDS, planted

RULES = load_rules()
PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(KINDS).map(lambda kind: planted(kind, random.Random(f"piece {kind}")).line),
    st.sampled_from(
        [
            "[redacted:",
            "[redacted:password]",
            "password=",
            "token: '",
            "Bearer ",
            "://a:",
            "@",
            "\\n",
            "AKIA",
            "eyJ",
        ]
    ),
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def rule(name: str, regex: str, **fields: object) -> SecretRule:
    given = {"description": "", "keywords": [], "regex": regex, "min_entropy": 0.0, **fields}
    return SecretRule(name, RuleFields.model_validate(given))


@given(TEXTS)
def test_redacting_once_more_changes_nothing(text: str) -> None:
    once = redact(text, RULES).text
    again = redact(once, RULES)
    assert again.text is once
    assert again.findings == ()


@given(TEXTS)
def test_the_findings_say_exactly_what_was_replaced(text: str) -> None:
    redacted = redact(text, RULES)
    at, parts = 0, []
    for kind, start, length in redacted.findings:
        assert start >= at
        assert length > 0
        parts += [text[at:start], f"[redacted:{kind}]"]
        at = start + length
    assert "".join([*parts, text[at:]]) == redacted.text


@given(st.text(max_size=300))
def test_a_text_without_secrets_is_the_same_object(text: str) -> None:
    redacted = redact(text, RULES)
    assert redacted.findings or redacted.text is text


@given(st.text(st.characters(categories=["Cs", "Lu", "Nd", "Po"]), max_size=80))
def test_halves_of_surrogate_pairs_do_no_harm(text: str) -> None:
    redact(text + " ghp_" + text, RULES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_place_of_a_secret_is_reported_and_the_secret_is_not(kind: str) -> None:
    line, secret = planted(kind, random.Random(f"place of {kind}"))
    text = f"İ before\n{line}\nafter"
    start = text.index(secret)
    redacted = redact(text, RULES)
    assert any(f.start <= start and start + len(secret) <= f.end for f in redacted.findings)
    assert secret not in repr(redacted)


def test_overlapping_matches_become_one_of_the_first_kind() -> None:
    rules = SecretRules([rule("first", "bcd"), rule("second", "abc"), rule("third", "ef")])
    rules = SecretRules([SecretRule(r.id, r.fields.model_copy(update={"whole_word": False})) for r in rules])
    assert redact("-abcdef-", rules) == (
        "-[redacted:first][redacted:third]-",
        (SecretFinding("first", 1, 4), SecretFinding("third", 5, 2)),
    )


def test_only_the_group_is_cut_out() -> None:
    rules = SecretRules([rule("group", r"a=(?P<secret>\d{2})|b=(?P<secret_other>\d{2})")])
    assert redact("a=12 b=34", rules).text == "a=[redacted:group] b=[redacted:group]"


def test_a_secret_exposed_by_a_redaction_is_redacted_too() -> None:
    rules = SecretRules([rule("word", "[0-9]{4}"), rule("end", "x-[a-z]{2}-", whole_word=False)])
    assert redact("1234x-ab-5678", rules).text == "[redacted:word][redacted:end][redacted:word]"


def test_a_text_that_keeps_exposing_secrets_is_redacted_whole() -> None:
    rules = SecretRules(
        [rule("last", "z(?![^z])", whole_word=False), rule("end", r"ab(?=$)", whole_word=False)]
    )
    text = "ab" * (MAX_PASSES + 3) + "z"
    redacted = redact(text, rules)
    assert re.sub(r"\[redacted:(end|last)\]", "", redacted.text) == ""
    assert redact(redacted.text, rules).text is redacted.text


def test_the_escape_of_a_line_break_and_percent_encoding_end_a_word() -> None:
    secret = "ghp_" + "a1B2" * 9
    mark = "[redacted:github-token]"
    assert redact(f"a\\n{secret}\\n", RULES).text == f"a\\n{mark}\\n"
    assert redact(f"key%3D{secret}", RULES).text == f"key%3D{mark}"


def test_a_letter_in_front_of_a_long_prefix_changes_nothing() -> None:
    assert redact("xghp_" + "a1B2" * 9, RULES).text == "x[redacted:github-token]"
    assert redact("task-" + "a1b2c3d4" * 4, RULES).findings == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_megabyte_of_near_misses_ends_in_time(kind: str) -> None:
    """No figure is asserted: anything slower than linear exceeds the suite's timeout."""
    [mine] = [each for each in RULES if each.id == kind]
    line, secret = planted(kind, random.Random(f"near {kind}"))
    head = line[: line.index(secret) + min(len(secret), 6)]
    for unit in (
        head,
        head[-4:],
        line[:-3],
        f"{secret[:-2]} ",
        secret[:1],
        "a",
        "A1_-",
        " ",
        "\\n",
        "\n",
        "=",
        ":",
    ):
        for _ in mine.spans(f"{head}{unit * (100_000 // len(unit))}"):
            pass
