"""The rules that describe each kind of secret. An operator's own file has the format of `rules.toml`."""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import regex
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentctx.config.bounded_files import read_bounded
from agentctx.errors import ConfigInvalid, RedactionTimedOut
from agentctx.text.redaction import encoded
from agentctx.text.redaction.checks import CHECKS, entropy
from agentctx.text.redaction.keywords import Keywords
from agentctx.text.redaction.time_limit import LIMIT_S, TimeLimit, hostile_texts

RULES_FILE: Final = Path(__file__).with_name("rules.toml")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
# Letters that may precede a secret: the escape of a line break, or a percent-encoded byte.
_BREAK: Final = re.compile(r"(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2})")
_WORD_END: Final = r"(?![A-Za-z0-9])"
_MAX_BEFORE_CHARS: Final = 80
"""How much of the text before a match `not_after` is compared with."""


class SecretSpan(NamedTuple):
    """The place of a secret in a text: `[start, end)` in code points."""

    start: int
    end: int


class RuleFields(BaseModel):
    """A table of a rules file; the comment at the top of `rules.toml` explains each key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    description: str
    source: str = ""
    keywords: list[Annotated[str, Field(min_length=2, pattern=r"^[^A-Z]+$")]]
    regex: Annotated[str, Field(min_length=1, max_length=4_096)]
    whole_word: bool | Literal["end"] = True
    at_keyword: bool = False
    characters: str = ""
    in_long_run: bool = False
    general: bool = False
    not_after: Annotated[str, Field(max_length=4_096)] = ""
    min_entropy: Annotated[float, Field(ge=0, le=8)] = 2.0
    checks: list[str] = []


@dataclass(frozen=True)
class SecretRule:
    """One kind of secret. Its regex is compiled on first use, because most rules are never needed."""

    id: str
    fields: RuleFields
    is_own: bool = False
    """Whether the rule is an operator's, so its regex has a time limit. Tests verify that ours are linear."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regex. An operator's rule uses the `regex` package, which supports a time limit."""
        source = self.fields.regex
        return self._compile(f"(?:{source}){_WORD_END}" if self.fields.whole_word else source)

    @cached_property
    def not_after(self) -> re.Pattern[str] | None:
        """What must not precede a match; None if anything may."""
        return self._compile(rf"(?:{self.fields.not_after})\Z") if self.fields.not_after else None

    def _compile(self, source: str) -> re.Pattern[str]:
        return regex.compile(source) if self.is_own else re.compile(source)

    @cached_property
    def _groups(self) -> tuple[str, ...]:
        return tuple(name for name in self.pattern.groupindex if name.startswith("secret"))

    def spans(
        self, text: str, keywords: Iterable[str] | None = None, limit: TimeLimit | None = None
    ) -> Iterator[SecretSpan]:
        """Yield the spans of the rule's secrets in the text, in order and without overlaps.

        `keywords`: the rule's keywords that the text contains, if known. `limit`: the time left for the text;
        by default the full `LIMIT_S`.

        Raises:
            RedactionTimedOut: an operator's regex exceeded the limit.
        """
        limit = limit or TimeLimit()
        if self.fields.at_keyword:
            matches = self._matches_at(text, self.fields.keywords if keywords is None else keywords, limit)
        else:
            matches = self._matches(text, limit)
        for match in matches:
            span = self._secret(match)
            if span.start < span.end and self._is_secret(text, match.start(), span, limit):
                yield span

    def _matches(self, text: str, limit: TimeLimit) -> Iterator[re.Match[str]]:
        alone = self.fields.in_long_run and not self.fields.keywords
        for start, end in encoded.long_runs(text) if alone else [SecretSpan(0, len(text))]:
            at = start
            while match := self._try(self.pattern.search, text, at, end, limit):
                # Checked here and not by a lookbehind: a regex that starts with a literal is far faster.
                if self.fields.whole_word is True and not _BREAK.match(text, match.start()):
                    at = match.start() + 1
                    continue
                at = max(match.end(), match.start() + 1)
                yield match

    def _matches_at(self, text: str, keywords: Iterable[str], limit: TimeLimit) -> Iterator[re.Match[str]]:
        lowered = lower(text)
        end = 0
        for at in sorted({at for keyword in keywords for at in _occurrences(keyword, lowered)}):
            if at < end or (self.fields.whole_word is True and not _BREAK.match(text, at)):
                continue
            if match := self._try(self.pattern.match, text, at, len(text), limit):
                span = self._secret(match)
                end = span.end if self._is_secret(text, at, span, limit) else end
                yield match

    def _try(
        self, attempt: Callable[..., re.Match[str] | None], text: str, start: int, end: int, limit: TimeLimit
    ) -> re.Match[str] | None:
        return limit.run(self.id, attempt, text, start, end) if self.is_own else attempt(text, start, end)

    def _secret(self, match: re.Match[str]) -> SecretSpan:
        taking_part = (name for name in self._groups if match[name] is not None)
        return SecretSpan(*match.span(next(taking_part, 0)))

    def _is_secret(self, text: str, at: int, span: SecretSpan, limit: TimeLimit) -> bool:
        secret, least = text[span.start : span.end], self.fields.min_entropy
        if least and entropy(secret) < least:
            return False
        if not all(CHECKS[name](secret) for name in self.fields.checks):
            return False
        first = max(at - _MAX_BEFORE_CHARS, 0)
        return not (self.not_after and self._try(self.not_after.search, text, first, at, limit))


def lower(text: str) -> str:
    """Lowercase the text, except for characters whose lower case has a different length."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(character if len(character.lower()) > 1 else character.lower() for character in text)


def _occurrences(keyword: str, lowered: str) -> Iterator[int]:
    at = lowered.find(keyword)
    while at >= 0:
        yield at
        at = lowered.find(keyword, at + 1)


class CandidateRule(NamedTuple):
    """A rule that may match a text, with those of its keywords that the text contains."""

    rank: int
    rule: SecretRule
    keywords: Sequence[str]


class _RuleIndex(NamedTuple):
    """The rules that may match texts with certain characters."""

    always: Sequence[int]
    ranks: Mapping[str, Sequence[int]]
    """The ranks of the rules that have each keyword."""
    keywords: Keywords


class SecretRules:
    """Rules in order of rank, with the keywords that select the rules for a text."""

    def __init__(self, rules: Iterable[SecretRule]) -> None:
        self._rules = tuple(rules)
        self._characters = sorted({rule.fields.characters for rule in self._rules} - {""})
        self._indexes: dict[tuple[bool, ...], _RuleIndex] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(rule.id for rule in self._rules)

    def __iter__(self) -> Iterator[SecretRule]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def candidates(self, text: str, *, has_long_run: bool | None = None) -> list[CandidateRule]:
        """Return the rules that may match the text, in order of rank. `has_long_run`: if known already."""
        possible = self._index_for(text, encoded.has_long_run(text) if has_long_run is None else has_long_run)
        keywords_at: dict[int, list[str]] = {at: [] for at in possible.always}
        for keyword in possible.keywords.within(lower(text)):
            for at in possible.ranks[keyword]:
                keywords_at.setdefault(at, []).append(keyword)
        return [CandidateRule(at, self._rules[at], keywords_at[at]) for at in sorted(keywords_at)]

    @staticmethod
    def narrow(candidates: Sequence[CandidateRule], part: str) -> list[CandidateRule]:
        """Return those of a text's rules that may match the given part of it."""
        lowered = lower(part)
        within = [
            each._replace(keywords=[word for word in each.keywords if word in lowered]) for each in candidates
        ]
        return [each for each in within if each.keywords or not each.rule.fields.keywords]

    def _index_for(self, text: str, long_run: bool) -> _RuleIndex:
        is_foreign = not text.isascii()
        has = text.__contains__
        key = (long_run, *[is_foreign or any(map(has, each)) for each in self._characters])
        if key not in self._indexes:
            characters = set(compress(self._characters, key[1:]))
            self._indexes[key] = self._build_index({"", *characters}, long_run=long_run)
        return self._indexes[key]

    def _build_index(self, characters: Collection[str], *, long_run: bool) -> _RuleIndex:
        always: list[int] = []
        ranks: dict[str, list[int]] = {}
        for at, fields in enumerate(rule.fields for rule in self._rules):
            if fields.characters not in characters or (fields.in_long_run and not long_run):
                continue
            for keyword in fields.keywords:
                ranks.setdefault(keyword, []).append(at)
            if not fields.keywords:
                always.append(at)
        return _RuleIndex(always, ranks, Keywords(ranks))

    @cached_property
    def vendor_rules(self) -> SecretRules:
        """The rules for vendors' formats, which need no context."""
        return SecretRules(rule for rule in self._rules if not rule.fields.general)


def load_rules(own: Path | None = None, *, disabled: Collection[str] = ()) -> SecretRules:
    """Load our rules and an operator's own, except the disabled ones.

    An operator's rules come before ours; each replaces a rule of ours with the same id.

    Raises:
        ConfigInvalid: the file cannot be read, a rule in it cannot be used, or a disabled id does not exist.
    """
    rules = _read(own, is_own=True) if own else {}
    rules = {**rules, **{name: rule for name, rule in _read(RULES_FILE).items() if name not in rules}}
    if unknown := sorted(set(disabled) - set(rules)):
        raise ConfigInvalid(
            f"redaction.disabled names the unknown rule {unknown[0]!r}.",
            hint="The rules are in agentctx/text/redaction/rules.toml and redaction.rules_file.",
        )
    return SecretRules(rule for name, rule in rules.items() if name not in disabled)


def _read(file: Path, *, is_own: bool = False) -> dict[str, SecretRule]:
    try:
        tables = tomllib.loads(read_bounded(file).decode())
    except OSError as error:
        raise _unusable(file, error.strerror or "it cannot be read") from None
    except ValueError as error:  # from the TOML parser, or not UTF-8
        raise _unusable(file, str(error)) from None
    # Tests check our rules; checking them at every start would compile all of them.
    check = _own_rule if is_own else _rule
    return {name: check(file, name, table) for name, table in tables.items()}


def _rule(file: Path, name: str, table: Any) -> SecretRule:
    try:
        return SecretRule(name, RuleFields.model_validate(table))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        location = ".".join(map(str, (name, *problem["loc"])))
        raise _unusable(file, f"{location}: {problem['msg'].lower()}") from None


def _own_rule(file: Path, name: str, table: Mapping[str, Any]) -> SecretRule:
    rule = replace(_rule(file, name, table), is_own=True)
    if problem := format_problem(rule) or _slowness_problem(rule):
        raise _unusable(file, f"{name}: {problem}")
    return rule


def format_problem(rule: SecretRule) -> str | None:
    """Return what is wrong with the form of a rule; None if it is well-formed."""
    if not _ID.fullmatch(rule.id):
        return "an id must be 1 to 63 of a-z, 0-9 and -, not starting with -"
    if unknown := [name for name in rule.fields.checks if name not in CHECKS]:
        return f"unknown check {unknown[0]!r}; use {', '.join(CHECKS)}"
    try:
        pattern, _ = rule.pattern, rule.not_after
    except (re.error, regex.error) as error:
        return f"the regex cannot be compiled: {error}"
    if pattern.search(""):
        return "the regex matches an empty text"
    return None


def _slowness_problem(rule: SecretRule) -> str | None:
    for text in hostile_texts(rule.fields.regex, rule.fields.keywords):
        try:
            deque(rule.spans(text), maxlen=0)
        except RedactionTimedOut:
            return (
                f"the regex takes longer than {LIMIT_S:g} s on a text of {len(text):,} characters; give its "
                "repetitions an upper bound, and do not nest them"
            )
    return None


def _unusable(file: Path, problem: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"The rules of {file} cannot be used: {problem}",
        hint="docs/how-to/secrets.md shows how to write a rule.",
    )
