"""The shipped rules against generated secrets and benign lines, and what an operator's own file may hold."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from agentctx.errors import ConfigInvalid, RedactionTimedOut
from agentctx.text.redaction.redactor import find, redact
from agentctx.text.redaction.rules import SecretRule, SecretRules, format_problem, load_rules
from tests.text.redaction.corpus import (
    KEPT_BACK,
    KEPT_BACK_BENIGN,
    KINDS,
    SHAPES,
    WRITTEN,
    benign_addresses,
    benign_lines,
    caught,
    cut_wrongly,
    planted,
)

SAMPLES = 50
RULES = load_rules()


def recall(kind: str) -> tuple[float, float]:
    """Return the shares of a kind's samples that are redacted completely, and under the kind's own name."""
    dice = random.Random(kind)
    whole = named = 0
    for _ in range(SAMPLES):
        line, secret = planted(kind, dice)
        start = line.index(secret)
        covering = [f for f in find(line, RULES) if f.start <= start and start + len(secret) <= f.end]
        whole += bool(covering)
        named += any(finding.kind == kind for finding in covering)
    return whole / SAMPLES, named / SAMPLES


def test_every_rule_has_generated_secrets() -> None:
    assert set(RULES.ids) == set(KINDS)
    assert len(RULES) >= 30


def test_no_rule_repeats_a_group_possessively() -> None:
    """Before Python 3.11.5, such a match may end in the wrong place."""
    possessive = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+")
    assert [rule.id for rule in RULES if possessive.search(rule.fields.regex)] == []


@pytest.mark.parametrize("document", ["docs/security.md", "CHANGELOG.md"])
def test_the_documents_state_the_number_of_kinds(document: str) -> None:
    text = (Path(__file__).parents[3] / document).read_text(encoding="utf-8")
    assert f"{len(RULES)} kinds" in text


def test_a_keyword_calls_every_rule_that_has_it_or_none() -> None:
    wrong = [
        keyword
        for keyword in sorted({word for rule in RULES for word in rule.fields.keywords})
        if not _calls_the_rules_that_have_it(f"some {keyword.upper()} here = 1 / {'a' * 20}@?")
    ]
    assert wrong == []


def _calls_the_rules_that_have_it(text: str) -> bool:
    present = text.lower()
    wanted = [
        rule.id
        for rule in RULES
        if not rule.fields.keywords or any(word in present for word in rule.fields.keywords)
    ]
    return [each.rule.id for each in RULES.candidates(text)] == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_generated_secrets_of_a_kind_are_cut_out(kind: str) -> None:
    assert min(recall(kind)) >= 0.9


def test_macro_recall_over_all_kinds() -> None:
    assert sum(recall(kind)[0] for kind in KINDS) / len(KINDS) >= 0.98


@pytest.mark.parametrize("shape", SHAPES)
def test_secrets_are_cut_out_in_every_shape_and_disguise(shape: str) -> None:
    assert caught(RULES, {shape: SHAPES[shape]})[shape] >= 0.8


def test_kinds_that_no_rule_was_written_for_are_cut_out() -> None:
    shares = caught(RULES, KEPT_BACK)
    assert len(shares) >= 60
    assert sum(shares.values()) / len(shares) >= 0.97, {
        kind: share for kind, share in shares.items() if share < 1
    }


@pytest.mark.parametrize("lines", [benign_lines(1_000, seed=7), KEPT_BACK_BENIGN], ids=["known", "kept back"])
def test_benign_lines_are_unchanged(lines: list[str]) -> None:
    wrong = cut_wrongly(RULES, lines)
    assert len(wrong) <= len(lines) / 250, wrong


def test_all_handwritten_benign_lines_are_unchanged() -> None:
    assert [line for line in WRITTEN if redact(line, RULES).text is not line] == []


def test_random_values_in_addresses_that_are_no_secrets_are_unchanged() -> None:
    assert cut_wrongly(RULES, [line for seed in range(20) for line in benign_addresses(seed)]) == []


@pytest.mark.parametrize("rule", list(RULES), ids=lambda rule: rule.id)
def test_every_shipped_rule_compiles_and_cites_its_format(rule: SecretRule) -> None:
    assert format_problem(rule) is None
    assert rule.fields.source
    assert all(keyword == keyword.lower() for keyword in rule.fields.keywords)


OWN = """
[acme-token]
description = "Token of our build farm"
keywords = ["acme_"]
regex = 'acme_[a-z0-9]{16}'
"""


def own_file(folder: Path, text: str) -> Path:
    file = folder / "rules.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_custom_rules_precede_the_shipped_ones(tmp_path: Path) -> None:
    rules = load_rules(own_file(tmp_path, OWN))
    assert rules.ids[0] == "acme-token"
    assert len(rules) == len(RULES) + 1
    assert redact("build with acme_0123456789abcdef!", rules).text == "build with [redacted:acme-token]!"


def test_an_own_rule_replaces_ours_of_its_id(tmp_path: Path) -> None:
    rules = load_rules(own_file(tmp_path, OWN.replace("acme-token", "password")))
    assert len(rules) == len(RULES)
    assert redact('password = "s3cr3t-Passw0rd"', rules).findings == ()


def test_a_match_behind_what_a_rule_excludes_is_left_in_place(tmp_path: Path) -> None:
    rules = load_rules(own_file(tmp_path, f"{OWN}not_after = '(?i:cursor)[=: ]{{1,3}}'"))
    text = "Cursor: acme_0123456789abcdef then acme_fedcba9876543210"
    assert redact(text, rules).text == "Cursor: acme_0123456789abcdef then [redacted:acme-token]"


def test_a_disabled_rule_is_not_used() -> None:
    line, secret = planted("github-token", random.Random(1))
    rules = load_rules(disabled=["github-token", "api-key", "prefixed-token"])
    assert secret in redact(line, rules).text
    with pytest.raises(ConfigInvalid, match="'no-such-rule'"):
        load_rules(disabled=["no-such-rule"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a", "at the end of"),
        ("[a]\nregex = 'x'\nkeywords = []", "a.description: field required"),
        ("[a]\ndescription = ''\nkeywords = []\nregex = 'x'\ncolour = 1", "a.colour"),
        ("[a]\ndescription = ''\nkeywords = ['Abc']\nregex = 'x'", "a.keywords.0"),
        ("[a]\ndescription = ''\nkeywords = []\nregex = '('", "a: the regex cannot be compiled"),
        ("[a]\ndescription = ''\nkeywords = []\nregex = 'x?'\nwhole_word = false", "a: .* an empty text"),
        (
            "[a]\ndescription = ''\nkeywords = []\nregex = 'x'\nnot_after = '('",
            "a: the regex cannot be compiled",
        ),
        ("[a]\ndescription = ''\nkeywords = []\nregex = 'x'\nchecks = ['no']", "a: unknown check 'no'"),
        ("[A_b]\ndescription = ''\nkeywords = []\nregex = 'x'", "A_b: an id must be"),
        ("a = 1", "a: "),
    ],
)
def test_an_invalid_rule_is_named_with_its_problem(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigInvalid, match=problem):
        load_rules(own_file(tmp_path, text))


def own_rules(folder: Path, regex: str, keywords: str = "[]") -> SecretRules:
    text = f"[slow]\ndescription = ''\nkeywords = {keywords}\nregex = '{regex}'\nmin_entropy = 0.0"
    return load_rules(own_file(folder, text))


@pytest.mark.parametrize(
    ("regex", "keywords"),
    [
        ("(x+)+y", "[]"),
        ("(?:a|a)*b", "[]"),
        ("a{0,5000}a{0,5000}a{0,5000}b", "[]"),
        ("acme(?:y|y)*;", "['acme']"),
        ("(?i:badge): (?:y|y)*;", "['badge']"),
        ("(.*,){11}P", "[]"),
    ],
)
def test_a_rule_that_takes_forever_on_a_hostile_text_is_refused(
    tmp_path: Path, regex: str, keywords: str
) -> None:
    with pytest.raises(ConfigInvalid, match="slow: the regex takes longer than"):
        own_rules(tmp_path, regex, keywords)


@pytest.mark.parametrize(
    "regex", ["acme_[a-z0-9]+", "[a-z]+_secret", "-----BEGIN ACME KEY-----[^-]+", r"\w+@acme\.example:\S+"]
)
def test_repeats_without_an_upper_bound_are_accepted(tmp_path: Path, regex: str) -> None:
    assert own_rules(tmp_path, regex).ids[0] == "slow"


def test_a_text_on_which_a_rule_does_not_finish_is_refused_and_the_rule_named(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, "[a-z]+_secret")

    with pytest.raises(RedactionTimedOut, match="rule slow takes longer than") as refused:
        redact("a" * 200_000 + "1_secret", rules)
    assert "aaa" not in refused.value.message
    assert redact("a harmless line", rules).findings == ()


def test_custom_rules_share_one_time_limit_per_text(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, "[a-z]+_secret")

    with pytest.raises(RedactionTimedOut):
        redact("[redacted:x]".join(["a" * 3_000 + "1_secret"] * 1_000), rules)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"nowhere\.toml.*No such file"):
        load_rules(tmp_path / "nowhere.toml")
