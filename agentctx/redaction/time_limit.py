"""How long an operator's regex may run, and the hostile texts it is tried on before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from time import thread_time
from typing import Final

from agentctx.errors import RedactionTimedOut

LIMIT_S: Final = 0.5
"""Seconds of processor time that all of an operator's rules may take for one text."""

_RUN_LENGTH: Final = 3_000
"""Characters. A quadratic regex takes milliseconds for so many, a cubic or exponential one far longer."""
_RUNS: Final = ("a", "A", "0", " ", "\n", "-", "_", "/", "=", ".", ":", ",", "\u00e9")
_PAIRS: Final = ("ab", "a1", "a ", "a.", "a,")
_GROUP: Final = re.compile(r"\((?:\?(?:P<\w+>|[a-zA-Z-]*:))?|\)")
_LITERAL: Final = re.compile(r"[\w :=@,;/'\"#-]{3,}")
_MOST_LITERALS: Final = 20


class TimeLimit:
    """The time that remains for one text.

    It counts the processor time of the thread, so that a busy machine refuses no text.
    """

    def __init__(self, seconds: float = LIMIT_S) -> None:
        self._left_s = seconds

    def run(
        self, rule_id: str, attempt: Callable[..., re.Match[str] | None], text: str, start: int, end: int
    ) -> re.Match[str] | None:
        """`attempt`: `search` or `match` of a pattern of the `regex` package.

        Raises:
            RedactionTimedOut: the time is up.
        """
        if self._left_s <= 0:
            raise _timed_out(rule_id)
        started = thread_time()
        try:
            return attempt(text, start, end, timeout=self._left_s, concurrent=True)
        except TimeoutError:
            raise _timed_out(rule_id) from None
        finally:
            self._left_s -= thread_time() - started


def hostile_texts(regex: str, keywords: Iterable[str]) -> Iterator[str]:
    """Long runs behind what a match could begin with, each ended by an unexpected character.

    The regex itself ends each text: `regex` gives up early on a text without the literals of the pattern.
    """
    literals = _LITERAL.findall(_GROUP.sub("", regex))[:_MOST_LITERALS]
    starts = dict.fromkeys(["", *keywords, *map(str.upper, keywords), *literals])
    runs = dict.fromkeys([*_RUNS, *_PAIRS, *filter(str.isalnum, regex)])
    for start, run in product(starts, runs):
        yield f"{start}{run * (_RUN_LENGTH // len(run))}\0{regex}"


def _timed_out(rule_id: str) -> RedactionTimedOut:
    return RedactionTimedOut(
        f"The redaction rule {rule_id} takes longer than {LIMIT_S:g} s on this text; nothing was saved."
    )
