"""Saves the turn or summary that an event reports, and turns missed earlier.

Prompt and answer must be of the same turn, or nothing is saved: a transcript may still end with the previous
turn.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple

from agentctx.agents.daemon import DaemonRefused, DaemonUnavailable, ask
from agentctx.agents.hooks.hook_events import COMPACTING_EVENTS, END_EVENTS, STOP_EVENTS, SUMMARY_EVENTS
from agentctx.agents.hooks.missed_turns import MAX_AGE_S, MissedTurn, MissedTurns
from agentctx.agents.hooks.remembered_entries import EntryBuilder, RememberedEntry, is_written, turn_name
from agentctx.agents.hooks.transcribed_turns import TranscribedTurn, last_turn, turns_since_compaction
from agentctx.agents.hooks.transcripts import parsed_lines

_TAIL_BYTES: Final = 1 << 20
"""Number of bytes read from the end of a transcript to find the last turn."""
_LONG_TAIL_BYTES: Final = 8 << 20
"""The same for a long turn, or one that was followed by others."""
_WRITING_S: Final = 1.0
"""Time for a client to write a turn to its transcript: Copilot and Claude Code report its end first."""
_WAITED_FOR: Final = ("Stop", "agentStop")
"""The events for the end of a turn of clients that write a transcript late."""
_SETTLED: Final = ("idempotency_key_reused", "forgotten")
"""Refusals of what was saved before, with another view of it, and of what was forgotten since."""
_LOOK_AGAIN_S: Final = 0.05
_NOTHING: Final = last_turn([])


class TranscriptUnreadable(Exception):
    """The transcript that an event names cannot be read as a file."""


class TurnCapture(NamedTuple):
    """Saves the turns of one conversation until the `deadline` (monotonic time)."""

    client: str
    session: str
    namespace: str
    socket: str
    deadline: float
    waits: bool = False
    """Whether what it saves waits for a review."""

    def capture(self, event: str, payload: Mapping[str, Any]) -> None:
        """Save the turn or summary of an event, then the turns that earlier events missed.

        Raises:
            TranscriptUnreadable: nothing is saved.
            DaemonUnavailable: no daemon answers. The turn is noted, to be saved by a later event.
            DaemonRefused: the daemon refused an entry; the others are saved.
        """
        name = turn_name(self.client, event, payload)
        if event in STOP_EVENTS:
            self._capture_turn(event, payload, name)
        elif event in COMPACTING_EVENTS:
            self._save(self._typed_since_compaction(str(payload.get("transcript_path") or "")))
        elif event not in END_EVENTS:
            self._save(self._builder(self.namespace).summary(payload.get("compact_summary")))
        if event not in SUMMARY_EVENTS:
            self._save_missed(except_turn=name)

    def _capture_turn(self, event: str, payload: Mapping[str, Any], name: str) -> None:
        path = payload.get("transcript_path") or payload.get("transcriptPath")
        missed = MissedTurn(self.client, self.session, name, str(path or ""), self.namespace)
        turn = _ended_turn(event, payload, name)
        if turn is None:
            _note_missed(missed)
            return
        try:
            self._save(self._builder(self.namespace).turn(payload, turn))
        except DaemonUnavailable:
            _note_missed(missed)
            raise

    def _typed_since_compaction(self, path: str) -> Iterator[RememberedEntry]:
        """Yield what was typed in each turn that has a name. What its end has saved has the same key."""
        records = list(parsed_lines(_tail(path, _TAIL_BYTES)))
        for turn in turns_since_compaction(records, max_age_s=MAX_AGE_S, now=time.time()):
            entries = self._builder(self.namespace).turn({}, turn) if turn.name else ()
            yield from (each for each in entries if each.body.get("part") == "prompt")

    def _save_missed(self, except_turn: str) -> None:
        notes = MissedTurns.of_user()
        for missed in notes.of_session(self.client, self.session):
            turn = last_turn(parsed_lines(_tail(missed.transcript, _LONG_TAIL_BYTES)), missed.name)
            if missed.name == except_turn or turn.name != missed.name or not turn.answer:
                continue
            with suppress(DaemonRefused):  # a retry would be refused, too
                self._save(self._builder(missed.namespace).turn({}, turn))
            notes.drop(missed)

    def _builder(self, namespace: str) -> EntryBuilder:
        return EntryBuilder(self.client, self.session, namespace)

    def _save(self, entries: Iterable[RememberedEntry]) -> None:
        """Save the entries; if one is refused, save the rest before raising."""
        refusal: DaemonRefused | None = None
        for body, key in entries:
            sent = {**body, "remember": "review"} if self.waits else body
            try:
                left = self.deadline - time.monotonic()
                ask(self.socket, "POST", "/v1/entries", sent, timeout_s=left, idempotency_key=key)
            except DaemonRefused as error:
                if error.code not in _SETTLED:
                    refusal = error
        if refusal is not None:
            raise refusal


def _ended_turn(event: str, payload: Mapping[str, Any], name: str) -> TranscribedTurn | None:
    """Return the turn that an event ends; None if the transcript does not contain it yet."""
    messages = payload.get("messages")
    if isinstance(messages, list):
        return last_turn(each for each in messages if isinstance(each, dict))
    path = payload.get("transcript_path") or payload.get("transcriptPath")
    if not isinstance(path, str) or not path:
        return _NOTHING
    until = time.monotonic() + (_WRITING_S if event in _WAITED_FOR else 0)
    for look in count():
        tail = _tail(path, _LONG_TAIL_BYTES if look == 1 else _TAIL_BYTES)
        turn = last_turn(parsed_lines(tail), name)
        if is_written(turn, name, payload) and (turn.prompt or look or event not in _WAITED_FOR):
            return turn  # at first, the prompt of a long turn is not seen
        if time.monotonic() >= until:
            break
        time.sleep(_LOOK_AGAIN_S)
    if name and turn.name == name and payload.get("last_assistant_message"):
        return turn
    return None if name else _NOTHING


def _note_missed(missed: MissedTurn) -> None:
    if missed.name and missed.transcript:
        with suppress(OSError):  # in a read-only home, the turn is lost
            MissedTurns.of_user().add(missed)


def _tail(path: str, size: int) -> list[str]:
    try:
        # A pipe may never have a writer, so opening it must not wait for one.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TranscriptUnreadable(f"The transcript {path!r} is not a regular file.")
            start = max(0, file.seek(0, os.SEEK_END) - size)
            file.seek(start)
            lines = (file.read(size) or b"").decode(errors="replace").split("\n")
            return ["", *lines] if start else [line for line in lines if line]  # "" for what is not seen
    except (FileNotFoundError, ValueError):  # the client's file may be gone
        return []
    except OSError as error:
        raise TranscriptUnreadable(f"The transcript {path!r} cannot be read: {error.strerror}.") from None
