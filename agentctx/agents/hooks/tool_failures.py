"""Derive learnings from tool failures that were followed by a success. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MAX_FAILURES: Final = 8
"""Maximum number of failures without a fix to remember; the oldest is dropped first."""
MAX_CALLS_BETWEEN: Final = 12
"""After more calls than this, a success is probably unrelated to the failure."""
MAX_TARGET_CHARS: Final = 4_000
"""Commands that differ only after this are the same."""
_MAX_PATTERN_CHARS: Final = 300
_MAX_FIX_CHARS: Final = 1_000
_TELLING: Final = re.compile(
    r"error|fail|fatal|not found|no such|denied|cannot|can't|refused|invalid|missing|unable|timed? ?out",
    re.IGNORECASE,
)
_PREFIX: Final = re.compile(r"^(?:cd\s+\S+\s*(?:&&|;)\s*|sudo\s+|env\s+|(?:\w+=\S*\s+))*")
_SHELLS: Final = frozenset(
    {"bash", "shell", "run_shell_command", "exec_command", "shell_command", "run_commands"}
)


class ToolUse(NamedTuple):
    """A finished tool call.

    `target` is the command or the file. `error` is the output of a failed call; None if it succeeded.
    """

    id: str
    name: str
    target: str
    error: str | None = None

    @property
    def kind(self) -> tuple[str, str]:
        """The tool with the program or file; calls of the same kind attempt the same thing."""
        if self.name.lower() not in _SHELLS:
            return self.name, self.target
        words = _PREFIX.sub("", self.target).split()
        return self.name, words[0] if words else ""


class ToolLearning(NamedTuple):
    """A learning: what to do if the same failure recurs."""

    trigger: str
    error_pattern: str
    fix: str


class _Failure(NamedTuple):
    call: ToolUse
    pattern: str
    at: int


def learned(calls: Sequence[ToolUse]) -> Iterator[tuple[str, ToolLearning]]:
    """Yield a learning for each success that fixed an earlier failure, with the id of the successful call.

    An identical call that succeeds when repeated yields no learning.
    """
    failures: list[_Failure] = []
    for at, call in enumerate(calls):
        if call.error is not None:
            pattern = error_line(call.error)
            if pattern and call.target:
                failures = [*failures, _Failure(call, pattern, at)][-MAX_FAILURES:]
            continue
        fixed = [each for each in failures if each.call.kind == call.kind]
        failures = [each for each in failures if each.call.kind != call.kind]
        failure = next((each for each in reversed(fixed) if each.call.target != call.target), None)
        if failure is not None and at - failure.at <= MAX_CALLS_BETWEEN:
            trigger = f"tool:{call.name} {call.kind[1]}".strip()
            fix = f"`{failure.call.target}` failed; this worked: `{call.target}`"
            yield call.id, ToolLearning(trigger[:_MAX_PATTERN_CHARS], failure.pattern, fix[:_MAX_FIX_CHARS])


def error_line(error: str) -> str:
    """Return the most informative line of an error: the last that looks like an error, else the last."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    chosen = (telling or lines or [""])[-1]
    return chosen[:_MAX_PATTERN_CHARS]
