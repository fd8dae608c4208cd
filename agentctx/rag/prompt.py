"""Derive the queries of a prompt: none, its whole text, or also the lines around a paste. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

from agentctx.storage.words import STOP_WORDS

SHORT_WORDS = 40
"""A prompt of at most this many words on one line is one question."""
FIRST_WINDOW = 2_000
"""Number of characters of a long prompt that are embedded; a model reads no more at once."""
LONGEST_LINE = 300
"""Maximum characters of a line of prose in a query."""
MIN_LINE_WORDS = 4
MIN_PROSE = 0.82
"""Minimum share of letters, spaces and punctuation in a line of prose."""

_WORD = re.compile(r"""[^\s.,;:!?¡¿"()\[\]…।،؟。、\uff0c\uff01\uff1f·*_~-]+""")
_LONG_WORD = re.compile(r"[^\W\d_]{2,}")
# Chinese, Japanese and Thai write no spaces between words.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
_CODE = re.compile(
    r"[;{}]\s*$|^\s*(?:#include|import |from |def |class |return\b|//|--|\$ |>>> |at |File |\d+\s*[|:])"
)


def _read_small_talk() -> frozenset[str]:
    text = files("agentctx.rag").joinpath("small_talk.txt").read_text(encoding="utf-8")
    lines = (line.partition("#")[0] for line in text.splitlines())
    return frozenset(word for line in lines for word in line.casefold().split())


_SMALL_TALK = _read_small_talk()
_UNSPACED_TALK = sorted((word for word in _SMALL_TALK if _UNSPACED.search(word)), key=len, reverse=True)


def has_content(prompt: str) -> bool:
    """Return whether a prompt has a subject, unlike "thanks" and "ok, go on" in the languages of the list.

    Anything with a digit has content: it may be a ticket number.
    """
    folded = prompt.casefold().replace("\u2019", "'")
    if any(char.isdigit() for char in folded):
        return True
    for phrase in _UNSPACED_TALK:
        folded = folded.replace(phrase, " ")
    words = (match[0].strip("'") for match in _WORD.finditer(folded))
    return any(any(map(str.isalpha, word)) for word in words if not _is_small_talk(word))


def queries_of(prompt: str) -> tuple[str, ...]:
    """Return the texts to search for: at least one, the whole prompt first.

    A long prompt yields its beginning and its first and last line of prose, because a question before or
    after a paste would be lost among the words of the paste.
    """
    text = prompt.strip()
    if is_short(text):
        return (text,)
    prose = [line for line in _lines(text) if is_prose(line)]
    around = [prose[0][:LONGEST_LINE], prose[-1][-LONGEST_LINE:]] if prose else []
    return tuple(dict.fromkeys([text[:FIRST_WINDOW], *around]))


def is_short(text: str) -> bool:
    """Return whether a prompt is one question: few words on one line."""
    return "\n" not in text and len(text.split()) <= SHORT_WORDS and len(text) <= FIRST_WINDOW


def is_prose(line: str) -> bool:
    """Return whether a line is natural language, not code, a log or a table."""
    letters = sum(char.isalpha() or char.isspace() or char in "'\u2019,.?!" for char in line)
    is_long = (
        len(_LONG_WORD.findall(line)) >= MIN_LINE_WORDS or len(_UNSPACED.findall(line)) >= MIN_LINE_WORDS
    )
    return is_long and letters / len(line) > MIN_PROSE and not _CODE.search(line)


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _is_small_talk(word: str) -> bool:
    return not word or word in _SMALL_TALK or word in STOP_WORDS
