"""What a text names: identifiers, numbered things, dates, sums, environments and proper names. No I/O.

Two names of one kind with different values are *twins*: AND-288 and AND-828, port 8080 and 9090, prod and
staging. Names are recognised by their form and their place in the text, not from lists of things.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from agentctx.service.rag.dates import CALENDAR, can_be_same, dates_of
from agentctx.service.rag.word_lists import lists
from agentctx.storage.stop_words import STOP_WORDS

MAX_CHARACTERS = 2_000
"""Number of characters of a text in which names are looked for."""

_WORDS = {name: frozenset(words.split()) for name, words in lists("names").items()}
_SAME_ENVIRONMENT = {"production": "prod", "stg": "staging", "development": "dev", "testing": "test"}
_ENVIRONMENT_WORDS = _WORDS["environments"] | _SAME_ENVIRONMENT.keys()
_EVERY_ENVIRONMENT = re.compile(
    r"\b(?:all|any|each|every|both) (?:\w+ )?env(?:ironment)?s?\b|\bevery(?:where|thing else)\b|\bnon-?prod",
    re.I,
)
_BOUNDS = _WORDS["bounds"]
_NEVER_NAMES = STOP_WORDS | CALENDAR

_TOKEN = re.compile(r"(?:(?<!\w)#(?=\d))?[^\W_](?:[\w.:/#@+~-]|,(?=\d{3}))*(?<![.:/#@+~-])")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[-/]\d+)*[a-z]?|\d+\.\d+")
_PATH = re.compile(r"[./_@]")
_DIGITS = re.compile(r"\d+")
_PORT = re.compile(r"(?<!\d):(\d{2,5})\b")
_AMOUNT = re.compile(
    r"\d+(?:[.,]\d+)?[a-z%\u00b5]{1,4}|\d{1,2}[:.]\d\d(?:-\d{1,2}[:.]\d\d)?|\d{4}-\d\d(?:-\d\d)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
)
"""A number with its unit, a time of day, or a date."""
_CODES = {
    "ip": re.compile(r"\d+(?:\.\d+){3}"),
    "version": re.compile(r"v\d+(?:\.\d+)*|\d+(?:\.\d+){2}(?:[.-][\w.]*[a-z][\w.]*)?"),
    "hash": re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}"),
}
_CURRENCY = rf"[\u20ac$\u00a3]|\b(?:{'|'.join(_WORDS['currencies'])})\b"
_MONEY = re.compile(rf"(?:{_CURRENCY})\s?(\d[\d.,']*)|(\d[\d.,']*)\s?(?:{_CURRENCY})", re.I)
_CENTS = re.compile(r"[.,](\d{1,2})$")
_ACTS = r",? (?:is|was|can|cannot|may|must|should|will|would|from|[a-z]{2,}s|\w+n't)\b|['\u2019]s\b"
_ACTING = re.compile(
    rf"(?<![\w.-])([A-Z][^\W\d_]+)(?={_ACTS})"
    r"|\b(?:does|do|did|is|was|has|can|can't|may|should|would|will|could) ([^\W\d_]{3,})"
    r"|\b(?:ask|tell|call|reach|contact|invoice|bill|with|by) ([A-Z][^\W\d_]+)"
)


class Name(NamedTuple):
    """Something that a text names exactly, in lower case.

    `kind` is "env", "date", "money", "id" or the form of a code, with `#` for each number: "and-#", "port #".
    `is_bound`: it only limits or exemplifies. `is_amount`: the number may count what follows it.
    """

    kind: str
    value: str
    is_bound: bool = False
    is_amount: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it tells one thing from all others, unlike a product or an environment."""
        is_plain = self.kind == "env" or (self.kind == "id" and not _PATH.search(self.value))
        return not is_plain and "*" not in self.value


class TextNames:
    """The names of a text, in lower case, found when they are first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text[:MAX_CHARACTERS].replace("https://", "").replace("http://", "")

    @cached_property
    def tokens(self) -> list[str]:
        return _TOKEN.findall(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words, and the parts of compound ones."""
        parts = (part for each in self.tokens if not each.isalpha() for part in _PART.findall(each))
        return frozenset(map(str.lower, (*self.tokens, *parts)))

    @cached_property
    def _coded(self) -> list[Name]:
        names = [*_coded(self.tokens), *(Name("port #", port) for port in _PORT.findall(self.text))]
        if any(name.kind == "env" for name in names):
            # Beside another one, as in "dev or prod", an ordinary word is an environment too.
            names += [Name("env", word) for word in ("dev", "demo") if word in self.words]
        return names

    @cached_property
    def _dates(self) -> list[Name]:
        return [Name("date", date, word in {*_BOUNDS, "of", "as"}) for word, date in dates_of(self.text)]

    @cached_property
    def _sums(self) -> list[Name]:
        return [*_sums(self.text)]

    @property
    def exact(self) -> list[Name]:
        """Its names with an exact value."""
        return [*self._coded, *self._dates, *self._sums]

    def of_kind(self, kind: str) -> list[Name]:
        """Return the exact names of one kind, without looking for the others."""
        found = self._dates if kind == "date" else self._sums if kind == "money" else self._coded
        return [name for name in found if name.kind == kind]

    @cached_property
    def proper(self) -> Mapping[str, tuple[str, str]]:
        """Each capitalised word with the words before and after it."""
        return {
            token.lower(): _neighbours(self.tokens, at)
            for at, token in reversed(list(enumerate(self.tokens)))
            if token[0].isupper() and not token.isupper() and token.lower() not in _NEVER_NAMES
        }

    @cached_property
    def acting(self) -> frozenset[str]:
        """The words for people and things that do, own or receive something."""
        return frozenset(match[match.lastindex or 0].lower() for match in _ACTING.finditer(self.text))

    @property
    def is_general(self) -> bool:
        """Whether it speaks of all environments."""
        return _EVERY_ENVIRONMENT.search(self.text) is not None


def names_of(text: str) -> TextNames:
    """Return what a text names, by its first `MAX_CHARACTERS`."""
    return TextNames(text)


def _neighbours(tokens: Sequence[str], at: int) -> tuple[str, str]:
    return tokens[at - 1].lower() if at else "", tokens[at + 1].lower() if at + 1 < len(tokens) else ""


def _coded(tokens: Sequence[str]) -> Iterator[Name]:
    for at, token in enumerate(tokens):
        if token.islower() and token.isalpha() and token not in _ENVIRONMENT_WORDS:
            continue
        low, (before, after) = token.lower(), _neighbours(tokens, at)
        if low.isalpha():
            named = _environment(low, before, after) or _lettered(token, before)
        elif _NUMBER.fullmatch(low) and not _AMOUNT.fullmatch(low):
            named = _numbered(low, _label(tokens, at))
        else:
            named = _code(low)
        if named is not None and after not in _WORDS["currencies"]:
            counts = len(after) > 3 and after.isalpha() and after.endswith("s")
            is_amount = named[0].endswith(" #") and counts
            yield Name(*named, before in _BOUNDS and named[0] != "env", is_amount)


def _environment(low: str, before: str, after: str) -> tuple[str, str] | None:
    value = _SAME_ENVIRONMENT.get(low, low)
    is_definite = after in _WORDS["after_environment"] and before not in _WORDS["indefinite"]
    is_in_place = before in _WORDS["before_environment"] or is_definite
    is_one = value in _WORDS["environments"] and (is_in_place or low not in _WORDS["ordinary"])
    return ("env", value) if is_one else None


def _lettered(token: str, before: str) -> tuple[str, str] | None:
    """Return what "bench B" or "parseHeader" names."""
    if len(token) == 1:
        is_letter = token.isupper() and token != "I" and _is_label(before)  # noqa: S105 - a word
        return (f"{_singular(before)} #", token.lower()) if is_letter else None
    is_camel = len(token) > 3 and not token.isupper() and not token[1:].islower()
    # "StateFlow" may be a product, "stateFlow" is a name in code.
    joint = "_" if token[0].islower() else "-"
    return ("id", joint.join(_PART.findall(token)).lower()) if is_camel else None


def _label(tokens: Sequence[str], at: int) -> str:
    """Return the word that says what a number numbers: "beds" in "beds 3, 4 and 5"."""
    before = (token.lower() for token in reversed(tokens[:at]))
    return next((low for low in before if low not in {"and", "or", "no", "number"} and not low.isdigit()), "")


def _numbered(low: str, label: str) -> tuple[str, str] | None:
    if _is_label(label):
        return f"{_singular(label)} #", low
    is_long = sum(map(str.isdigit, low)) > 4 and not low.isdigit()
    return (_DIGITS.sub(lambda digits: "0" * len(digits[0]), low), low) if is_long else None


def _is_label(word: str) -> bool:
    return len(word) > 1 and word.isalpha() and word not in _NEVER_NAMES and word not in _BOUNDS


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _code(low: str) -> tuple[str, str] | None:
    if low[0] == "#":
        return "issue #", low[1:]
    for kind, pattern in _CODES.items():
        if pattern.fullmatch(low):
            return kind, low.removeprefix("v")
    if _AMOUNT.fullmatch(low):
        return None
    return ("id" if _PATH.search(low) or not _DIGITS.search(low) else _DIGITS.sub("#", low)), low


def _sums(text: str) -> Iterator[Name]:
    """Yield sums of money, in any currency, as "1249.50"."""
    for match in _MONEY.finditer(text):
        whole, cents, _ = [*_CENTS.split((match[1] or match[2]).rstrip(".,")), "0", ""][:3]
        before = text[: match.start()].rstrip().rpartition(" ")[2].lower()
        yield Name("money", f"{''.join(_DIGITS.findall(whole))}.{cents:0<2}", before in _BOUNDS)


def is_same(one: Name, other: Name) -> bool:
    """Return whether two names of one kind can name the same: a date as far as it is said, 2.1 and 2.1.4."""
    if one.kind == "date":
        return can_be_same(one.value, other.value)
    if one.kind == "version":
        return f"{one.value}.".startswith(f"{other.value}.") or f"{other.value}.".startswith(f"{one.value}.")
    return one.value.removesuffix("s") == other.value.removesuffix("s")


def are_twins(one: Name, other: Name) -> bool:
    """Return whether two different names of one kind are taken for each other.

    Identifiers are if they share at least half of their parts, but not a file's extension alone; a month is
    no twin of a day.
    """
    if one.kind == "date":
        return one.value.endswith("*") or not other.value.endswith("*")
    if one.kind != "id":
        return True
    mine, theirs = (re.split(r"[^a-z0-9]+", each.value.removesuffix("s")) for each in (one, other))
    head = _shared(mine, theirs)
    tail = _shared(mine[head:][::-1], theirs[head:][::-1])
    is_extension = not head and tail == 1 and "." in one.value[-6:] and "." in other.value[-6:]
    shortest, longest = sorted((len(mine), len(theirs)))
    return longest / 2 <= head + tail < shortest and not is_extension


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))])
