"""Read the turns of a conversation from the events in its transcript. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from agentctx.agents.hooks.tool_failures import MAX_TARGET_CHARS, ToolUse, error_line
from agentctx.agents.hooks.transcripts import (
    Event,
    Flag,
    Json,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Utterance,
    events,
)

MAX_CALLS: Final = 1_000
MAX_SUMMARIES: Final = 8
"""Of the calls and the summaries of a conversation, the last ones are held."""


class Summary(NamedTuple):
    """A compaction's summary of the conversation, and when it was made."""

    text: str
    at: int = 0


class TranscribedTurn(NamedTuple):
    """A turn. `calls` also has the calls of earlier turns; `own_calls` has the ids of its own.

    `summaries` are the compactions since the previous answer; `name` is the id of the turn in events. `typed`
    is what the client shows as entered by the user; `has_read` tells whether the model may have read anything
    else so far in the conversation, and `at` when the prompt was entered.
    """

    prompt: str
    answer: str
    calls: tuple[ToolUse, ...]
    own_calls: frozenset[str]
    summaries: tuple[Summary, ...]
    name: str = ""
    typed: str = ""
    has_read: bool = True
    at: int = 0


def last_turn(entries: Iterable[Json], name: str = "") -> TranscribedTurn:
    """Return the turn of this name, or else the last one; its texts are empty if there is none."""
    turn = _TurnReader()
    for event in events(entries):
        if name and name == turn.name and isinstance(event, TurnStarted) and event.name != name:
            break
        turn.take(event)
        if name and isinstance(event, TurnEnded) and event.name == name:
            break
    return turn.read()


def turns_since_compaction(records: list[Json], *, max_age_s: float, now: float) -> Iterator[TranscribedTurn]:
    """Yield the turns after the last compaction that are not older than `max_age_s`; `now` is a Unix time."""
    oldest = datetime.fromtimestamp(now - max_age_s, UTC).isoformat()
    is_summary = [bool(each.get("isCompactSummary")) or each.get("type") == "compacted" for each in records]
    start = len(records) - is_summary[::-1].index(True) if True in is_summary else 0
    recent = [each for each in records[start:] if str(each.get("timestamp") or oldest) >= oldest]
    yield from each_turn([{}, *recent] if len(recent) < len(records) else recent)


def each_turn(entries: Iterable[Json]) -> Iterator[TranscribedTurn]:
    """Yield the turns of a conversation from its beginning, each when the next one begins.

    A turn without a name ends with the next prompt.
    """
    turn, is_over = _TurnReader(), True
    for event in events(entries):
        is_prompt = isinstance(event, Utterance) and event.kind == "prompt"
        if (isinstance(event, TurnStarted) and event.name != turn.name) or (is_prompt and is_over):
            yield turn.read()
            turn.name = "" if is_prompt else turn.name
            is_over = False
        turn.take(event)
        is_over = is_over or isinstance(event, TurnEnded) or not turn.name
    yield turn.read()


class _TurnReader:
    """Collects the events of a conversation until its last turn is read."""

    def __init__(self) -> None:
        self.name = ""
        self._prompt = self._answer = self._typed = ""
        self._now = self._at = 0
        self._flags: set[Flag] = set()
        self._started: dict[str, ToolStarted] = {}
        self._calls: dict[str, ToolUse] = {}
        self._own_calls: set[str] = set()
        self._summaries: deque[Summary] = deque(maxlen=MAX_SUMMARIES)
        self._unanswered: deque[Summary] = deque(maxlen=MAX_SUMMARIES)

    def take(self, event: Event) -> None:
        match event:
            case int():
                self._now = event
            case "read" | "delegated":
                self._flags.add(event)
            case ToolStarted():
                self._started[event.id] = event._replace(target=event.target[:MAX_TARGET_CHARS])
                _drop_first(self._started, MAX_CALLS)
            case ToolEnded():
                if event.id in self._started and not event.is_refused:
                    self._end(event)
            case TurnStarted():
                if event.name != self.name:
                    self._start("", event.name)
            case TurnEnded():
                self.name = event.name
            case _:
                self._hear(event)

    def read(self) -> TranscribedTurn:
        calls, own = tuple(self._calls.values()), frozenset(self._own_calls)
        typed = "" if "delegated" in self._flags else self._typed
        has_read = "read" in self._flags or not (typed and self._answer)
        said = (self._prompt, self._answer, calls, own, tuple(self._summaries), self.name, typed, has_read)
        return TranscribedTurn(*said, self._at)

    def _end(self, ended: ToolEnded) -> None:
        error = None if ended.error is None else error_line(ended.error)
        self._calls[ended.id] = ToolUse(*self._started[ended.id], error)
        self._own_calls.add(ended.id)
        self._own_calls.discard(_drop_first(self._calls, MAX_CALLS))

    def _hear(self, said: Utterance) -> None:
        if said.kind == "prompt":
            self._start(said.text, self.name)
            self._typed = said.typed
        elif said.kind == "answer":
            self._answer = said.text
            self._unanswered.clear()
        else:
            self._summaries.append(Summary(said.text, self._now))
            self._unanswered.append(self._summaries[-1])

    def _start(self, prompt: str, name: str) -> None:
        self._prompt, self._answer, self._typed, self.name = prompt, "", "", name
        self._own_calls, self._summaries, self._at = set(), self._unanswered.copy(), self._now


def _drop_first(held: dict[str, Any], most: int) -> str:
    """Drop what is held longest if it is more than `most`; return its id, or nothing."""
    first = next(iter(held)) if len(held) > most else ""
    held.pop(first, None)
    return first
