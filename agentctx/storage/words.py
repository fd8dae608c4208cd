"""Keyword search: the terms of a text that FTS5's `porter unicode61` does not produce itself, and the
conversion of a question to an FTS5 expression. No I/O.

`unicode61` folds case and diacritics and splits at everything that is not a letter or digit, so `snake_case`
and `config.yaml` only need a phrase. It does not split runs of Chinese, Japanese or Korean characters (CJK),
nor camelCase: that is done here, in the same way for texts and for questions. Nor does it know that a
ligature or a wide letter is written with other letters (NFKC), or that an emoji is a word.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeAlias

from agentctx.storage.inflection import MAX_WORDS, Form, forms, inflected
from agentctx.storage.stop_words import is_grammar, stop_words_of

ScopeKind: TypeAlias = Literal["n", "c", "s"]
"""n: namespace, c: collection, s: session."""

# Hangul, kana, bopomofo and Han, with their iteration and length marks.
_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Compiled on first use: 9 ms that the daemon's start does not take.
_CJK_RUN = f"[{_CJK}]+"
_WORD = rf"[^\W_{_CJK}]+"
# Where letters change case or meet a digit. Starting with a character set, it skips prose 10 times faster.
_MIXED = re.compile(
    r"[A-Z0-9](?:(?<=[a-z][A-Z])|(?<=[A-Z]{2})(?=[a-z])|(?<=[A-Za-z][0-9])|(?<=[0-9])(?=[A-Za-z]))"
)
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
TERM_RULES = 2
"""Version of what `index_terms` returns; an index of an earlier one is rebuilt where it can be compared."""
MAX_TERMS = 256
"""Maximum number of distinct terms of a question: more than a page of prose has."""
MAX_READ = 16 * MAX_TERMS
"""Maximum number of terms that are read, repeated ones included."""
_MAX_PARTS = 8
"""Maximum number of parts; a word with more is a hash or base64, not a name."""

# Combining marks and the Indic to Khmer blocks, whose vowel signs are not `\w`, and the private use area,
# whose characters unicode61 treats as letters.
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u109f\u1780-\u17d3\ue000-\uf8ff"
_WORDLIKE = rf"(?:[^\W{_CJK}]|[{_MARKS}])+"
_RUN_OR_COMPOUND = rf"([{_CJK}]+)|{_WORDLIKE}(?:(?:::|[-./\\@'\u2019]){_WORDLIKE})*"
# Emoji and other pictures, without skin tones and the lines of tables.
_SYMBOL = (
    "[\u00a9\u00ae\u203c\u2049\u2100-\u24ff\u25a0-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f3fa\U0001f400-\U0001fbff]"
)
_NEGATION = re.compile(r"\w+n['\u2019]t", re.IGNORECASE)
_CONTRACTION = re.compile(r"['\u2019](?:s|re|ve|ll|d|m)$", re.IGNORECASE)
# French and Italian articles and pronouns: `l'abonnement`, `dell'anno`.
_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|un|all|dall|dell|nell|sull)['\u2019](?=\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or a compound that FTS5 reads as a phrase."""

    text: str
    prefix: bool = False
    """Whether longer words with this prefix match too."""
    forms: tuple[Form, ...] = ()
    """What else has the term: the forms of a word in another language than English."""


def index_terms(text: str) -> str:
    """Return the distinct additional search terms of a text, separated by spaces; empty for most English
    prose.

    For CJK: every pair of adjacent characters and the last character of each run (a single character is found
    as a pair's prefix), and the words that touch a run or a symbol. For camelCase and `sha256`: their parts.
    Words with ligatures or wide letters in plain ones, and a name for each emoji.
    """
    if text.isascii() and not _MIXED.search(text):
        return ""
    return " ".join(dict.fromkeys(_index_terms(text)))


def question_terms(question: str) -> list[Term]:
    """Return the distinct terms of a question in order, in lower case; all characters are text, never syntax.

    Stop words of English and of the question's language are dropped unless nothing else remains.
    `config.yaml`, `well-known` and `foo::bar` stay whole; camelCase words are added whole and in parts; CJK
    runs become pairs of characters. Emoji are terms if there is nothing else. The first words of a question
    in another language come with their forms.
    """
    found = dict.fromkeys(islice(_question_terms(question), MAX_READ))
    terms = list(found)[:MAX_TERMS] or list(map(Term, dict.fromkeys(_symbol_names(question))))[:MAX_TERMS]
    stop_words, languages = stop_words_of(question), inflected(question)
    terms = [term for term in terms if term.text not in stop_words and not is_grammar(term.text)] or terms
    if not languages:
        return terms
    first = (replace(term, forms=forms(term.text, languages)) for term in terms[:MAX_WORDS])
    return [*first, *terms[MAX_WORDS:]]


def parts_of_words(question: str) -> dict[str, list[str]]:
    """Return the parts of each camelCase or mixed word of a question, which are terms of it as well."""
    words = (match[0].strip("_") for match in re.finditer(_WORDLIKE, unicodedata.normalize("NFC", question)))
    return {word.lower(): parts for word in words if (parts := _parts(word))}


def match_expression(terms: Sequence[Term], scope: Sequence[Sequence[str]]) -> str:
    """Return the MATCH expression for any of the terms and at least one token of every scope group.

    Terms are searched in the columns `text`, `labels` and `terms`, scope tokens only in `scope`. Empty if
    nothing can match because there are no terms or a group has no tokens.
    """
    if not terms or not all(scope):
        return ""
    wanted = " OR ".join(map(_term_expression, terms))
    return " AND ".join([f"{{text labels terms}} : ({wanted})", *_scope_groups(scope)])


def scope_expression(scope: Sequence[Sequence[str]]) -> str:
    """Return the MATCH expression for at least one token of every scope group; `scope` must not be empty."""
    return " AND ".join(_scope_groups(scope))


def scope_token(kind: ScopeKind, value: str) -> str:
    """Return the token of a namespace, collection or session in the `scope` column: only a-z and 0-9.

    It encodes 64 bits of the value's SHA-256 and ends in a digit, so that no stemmer changes it.
    """
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
    return f"{kind}{int.from_bytes(digest[:8], 'big')}"


def _term_expression(term: Term) -> str:
    whole = _quoted(term.text) + "*" * term.prefix
    each = (" AND ".join(f"{_quoted(beginning)}*" for beginning in form) for form in term.forms)
    return " OR ".join([whole, *(f"({form})" for form in each)])


def _scope_groups(scope: Sequence[Sequence[str]]) -> list[str]:
    return [f"scope : ({' OR '.join(map(_quoted, group))})" for group in scope]


def _index_terms(text: str) -> Iterator[str]:
    normal = unicodedata.normalize("NFC", text)
    for run in re.findall(_CJK_RUN, normal):
        characters = unicodedata.normalize("NFKC", run)
        yield from _pairs(characters)
        yield characters[-1]
    for match in re.finditer(_WORD, normal):
        if _touches_glue(normal, match):
            yield match[0].lower()
        yield from _parts(match[0])
    # A question searches for a compound as a phrase, whose last word may be glued to a symbol in the text.
    for match in re.finditer(_RUN_OR_COMPOUND, normal):
        if not match[1] and _touches_glue(normal, match):
            yield match[0].lower()
        if not match[1] and (plain := unicodedata.normalize("NFKC", match[0])) != match[0]:
            yield plain.lower()
    yield from _symbol_names(normal)


def named_symbols(text: str) -> str:
    """Replace each emoji by its name, a word like `u1f680`."""
    return re.sub(_SYMBOL, lambda match: f" {_name(match[0])} ", text)


def _symbol_names(text: str) -> Iterator[str]:
    return map(_name, re.findall(_SYMBOL, text))


def _name(symbol: str) -> str:
    return f"u{ord(symbol):x}"


def _touches_glue(text: str, match: re.Match[str]) -> bool:
    beside = text[max(match.start() - 1, 0) : match.start()] + text[match.end() : match.end() + 1]
    return any(map(_is_glue, beside))


def _is_glue(char: str) -> bool:
    """Return whether unicode61 may glue the character to a word: CJK, or symbols newer than its tables."""
    return not char.isascii() and (bool(re.match(_CJK_RUN, char)) or unicodedata.category(char)[0] == "S")


def _question_terms(question: str) -> Iterator[Term]:
    for match in re.finditer(_RUN_OR_COMPOUND, unicodedata.normalize("NFC", question)):
        if match[1]:
            run = unicodedata.normalize("NFKC", match[1])
            yield from map(Term, _pairs(run)) if len(run) > 1 else [Term(run, prefix=True)]
        else:
            word = _without_contraction(match[0]).strip("_")
            plain = unicodedata.normalize("NFKC", word)
            yield from _word_terms(plain)
            if plain != word:  # as in an index written before plain letters were indexed
                yield from _word_terms(word)


def _word_terms(word: str) -> Iterator[Term]:
    if any(map(_is_token_character, word)):
        yield Term(word.lower())
        if word.isalnum():
            yield from map(Term, _parts(word))


def _without_contraction(word: str) -> str:
    return "not" if _NEGATION.fullmatch(word) else _ELISION.sub("", _CONTRACTION.sub("", word))


def _pairs(run: str) -> Iterator[str]:
    return (run[start : start + 2] for start in range(len(run) - 1))


def _parts(word: str) -> list[str]:
    """Split `getUserName` into get, user, name; empty for a word of one part, such as `URLs`."""
    if not (word.isascii() and _MIXED.search(word)):
        return []
    parts = _PART.findall(word)
    return [part.lower() for part in parts] if 1 < len(parts) <= _MAX_PARTS else []


def _is_token_character(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LN" or category == "Co"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
