"""What a tool's failure and its later success teach together: a learning. No I/O."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final, NamedTuple

MOST_SESSIONS: Final = 16
MOST_FAILURES: Final = 8
"""Failures of one session that may still be fixed; the oldest goes first."""
MOST_CALLS_BETWEEN: Final = 12
"""A success after more calls than that has little to do with the failure."""
_MOST_PATTERN_CHARS: Final = 300
_MOST_FIX_CHARS: Final = 1_000
_TELLING: Final = re.compile(
    r"error|fail|fatal|not found|no such|denied|cannot|can't|refused|invalid|missing|unable|timed? ?out",
    re.IGNORECASE,
)
_PREFIX: Final = re.compile(r"^(?:cd\s+\S+\s*(?:&&|;)\s*|sudo\s+|env\s+|(?:\w+=\S*\s+))*")


class ToolUse(NamedTuple):
    """A call of a tool: its `name`, and the `target`, a command or the file it works on."""

    name: str
    target: str

    @property
    def kind(self) -> tuple[str, str]:
        """Calls of one kind try the same: a program's name, or the file."""
        if self.name.lower() not in {"bash", "shell", "run_shell_command", "exec_command"}:
            return self.name, self.target
        words = _PREFIX.sub("", self.target).split()
        return self.name, words[0] if words else ""


class ToolLearning(NamedTuple):
    """What to do when the same fails again."""

    trigger: str
    error_pattern: str
    fix: str


class _Failure(NamedTuple):
    call: ToolUse
    error: str
    at: int


class ToolFailures:
    """The failures of running sessions that no later call has fixed yet."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, list[_Failure]] = OrderedDict()
        self._calls = 0

    def failed(self, session: str, call: ToolUse, error: str) -> None:
        """Note a failure. One without a message teaches nothing."""
        self._calls += 1
        pattern = telling_line(error)
        if not pattern or not call.target:
            return
        known = self._open.setdefault(session, [])
        known[:] = [*known, _Failure(call, pattern, self._calls)][-MOST_FAILURES:]
        self._open.move_to_end(session)
        if len(self._open) > MOST_SESSIONS:
            self._open.popitem(last=False)

    def succeeded(self, session: str, call: ToolUse) -> ToolLearning | None:
        """What a success teaches; None: it fixed nothing, or the very same call worked the second time."""
        self._calls += 1
        known = self._open.get(session, [])
        fixed = [each for each in known if each.call.kind == call.kind]
        self._open[session] = [each for each in known if each.call.kind != call.kind]
        for failure in reversed(fixed):
            is_near = self._calls - failure.at <= MOST_CALLS_BETWEEN
            if is_near and failure.call.target != call.target:
                return _learning(failure, call)
        return None


def telling_line(error: str) -> str:
    """The line of an error message that says what is wrong: the last that sounds like it, else the last."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    found = (telling or lines or [""])[-1]
    return found[:_MOST_PATTERN_CHARS]


def _learning(failure: _Failure, call: ToolUse) -> ToolLearning:
    trigger = f"tool:{call.name} {call.kind[1]}".strip()
    fix = f"`{failure.call.target}` failed; this worked: `{call.target}`"
    return ToolLearning(trigger[:_MOST_PATTERN_CHARS], failure.error, fix[:_MOST_FIX_CHARS])
