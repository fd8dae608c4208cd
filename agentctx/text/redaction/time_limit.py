"""The time limit for operators' regexes, and hostile texts on which each regex is first tested."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from time import thread_time
from typing import Final

from agentctx.errors import RedactionTimedOut

LIMIT_S: Final = 0.5
"""Seconds of processor time that all of an operator's rules together may take for one text."""

_REPETITION_CHARS: Final = 3_000
"""In characters; a quadratic regex takes milliseconds for this, a cubic or exponential one far longer."""
_REPETITIONS: Final = ("a", "A", "0", " ", "\n", "-", "_", "/", "=", ".", ":", ",", "\u00e9")
_PAIRS: Final = ("ab", "a1", "a ", "a.", "a,")
_GROUP: Final = re.compile(r"\((?:\?(?:P<\w+>|[a-zA-Z-]*:))?|\)")
_LITERAL: Final = re.compile(r"[\w :=@,;/'\"#-]{3,}")
_MAX_LITERALS: Final = 20


class TimeLimit:
    """The remaining time for one text.

    It measures the thread's processor time, so that no text is refused because the machine is busy.
    """

    def __init__(self, seconds: float = LIMIT_S) -> None:
        self._remaining_s = seconds

    def run(
        self, rule_id: str, attempt: Callable[..., re.Match[str] | None], text: str, start: int, end: int
    ) -> re.Match[str] | None:
        """Run `attempt`, the `search` or `match` method of a `regex` package pattern.

        Raises:
            RedactionTimedOut: the time is up.
        """
        if self._remaining_s <= 0:
            raise _timed_out(rule_id)
        started = thread_time()
        try:
            return attempt(text, start, end, timeout=self._remaining_s, concurrent=True)
        except TimeoutError:
            raise _timed_out(rule_id) from None
        finally:
            self._remaining_s -= thread_time() - started


def hostile_texts(regex: str, keywords: Iterable[str]) -> Iterator[str]:
    """Yield texts of a possible start of a match, a long repetition, and a character that makes it fail.

    Each text ends with the regex itself, because `regex` gives up early on texts without the pattern's
    literals.
    """
    literals = _LITERAL.findall(_GROUP.sub("", regex))[:_MAX_LITERALS]
    starts = dict.fromkeys(["", *keywords, *map(str.upper, keywords), *literals])
    repeated = dict.fromkeys([*_REPETITIONS, *_PAIRS, *filter(str.isalnum, regex)])
    for start, unit in product(starts, repeated):
        yield f"{start}{unit * (_REPETITION_CHARS // len(unit))}\0{regex}"


def _timed_out(rule_id: str) -> RedactionTimedOut:
    return RedactionTimedOut(
        f"The redaction rule {rule_id} takes longer than {LIMIT_S:g} s on this text; nothing was saved."
    )
