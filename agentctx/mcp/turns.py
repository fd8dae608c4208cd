"""Choose the turns of a conversation that are worth remembering, and the text to keep. No I/O.

A turn is kept if the user states a fact, or if the answer contains something specific: a reason, a decision,
a rule, a name or a number. Acknowledgements, announcements of the next step, requests without a fact, dumps
of files and output, and messages from the client itself are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agentctx.mcp.injected_text import without_injected
from agentctx.mcp.turn_phrases import (
    ANNOUNCEMENT,
    CLIENT,
    DUMPED,
    OFFER,
    REQUEST,
    SPECIFIC,
    STATUS,
    WEIGHTY,
)

MAX_PROMPT_CHARS: Final = 2_000
MAX_ANSWER_CHARS: Final = 6_000
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_MAX_FENCED_LINES: Final = 6
"""A shorter snippet is part of the statement; a longer one is a file or output."""
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MIN_CHARS: Final = 24
_MIN_CJK: Final = 8


def remembered_turn(prompt: str, answer: str) -> str | None:
    """Return the text to remember of a turn, or None if it is not worth remembering."""
    asked, said = _prose(without_injected(prompt)), _prose(without_injected(answer))
    if CLIENT.match(said) or CLIENT.match(asked):
        return None
    if not (_states(asked) or _informs(said)):
        return None
    parts = [("User", asked[:MAX_PROMPT_CHARS]), ("Assistant", said[:MAX_ANSWER_CHARS])]
    return "\n\n".join(f"{name}: {text}" for name, text in parts if text)


def _prose(text: str) -> str:
    """Remove long code blocks and runs of dumped lines from the text."""
    lines = _FENCE.sub(_short_fence, text).split("\n")
    dumped = [bool(DUMPED.match(line)) for line in lines]
    kept = [line for at, line in enumerate(lines) if not (dumped[at] and _in_run(dumped, at))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _short_fence(match: re.Match[str]) -> str:
    return match[0] if match[0].count("\n") <= _MAX_FENCED_LINES + 1 else ""


def _in_run(dumped: Sequence[bool], at: int) -> bool:
    """Return whether most of the surrounding lines are dumped, too."""
    around = dumped[max(0, at - 3) : at + 4]
    return sum(around) >= 4


def _states(prompt: str) -> bool:
    """Return whether the user states something that holds beyond this turn."""
    return any(
        _is_long_enough(sentence)
        and not sentence.rstrip().endswith(("?", "\uff1f"))
        and not REQUEST.match(sentence)
        and bool(WEIGHTY.search(sentence))
        for sentence in _sentences(prompt)
    )


def _informs(answer: str) -> bool:
    """Return whether the answer says something specific."""
    weight = 0
    for sentence in _sentences(answer):
        if not _is_long_enough(sentence) or sentence.rstrip().endswith(("?", "\uff1f", ":", "\uff1a")):
            continue
        if ANNOUNCEMENT.match(sentence) or OFFER.search(sentence):
            continue
        weighty, specific = bool(WEIGHTY.search(sentence)), bool(SPECIFIC.search(sentence))
        if STATUS.match(sentence) and not weighty:
            continue
        weight += 2 * weighty + specific + 1
    return weight >= 2


def _sentences(text: str) -> list[str]:
    stripped = (re.sub(r"^[\s>*#\-•\d.)]+", "", each) for each in _SENTENCE.split(text))
    return [each for each in stripped if each]


def _is_long_enough(sentence: str) -> bool:
    return len(sentence) >= _MIN_CHARS or len(_CJK.findall(sentence)) >= _MIN_CJK
