"""Past sessions of agents: the turns, learnings and summaries that their hooks would have saved.

The hooks' own code reads the transcripts and chooses what to remember, so it has the same text, and the same
id as what a hook saved of the session.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentctx.agents.hooks.hook_events import session_of
from agentctx.agents.hooks.remembered_entries import EntryBuilder, RememberedEntry
from agentctx.agents.hooks.transcribed_turns import TranscribedTurn, each_turn
from agentctx.config.project import namespaces_of
from agentctx_importers.files import files_below, lines_of, modified_ms
from agentctx_importers.json_values import json_object
from agentctx_importers.records import MAX_KNOWN_IDS, Item, MemorySource, Record, RefusedItem, Unreadable

MAX_NAMED_LINES: Final = 20
"""Of the damaged lines of a transcript, the first ones are named and the others counted."""
_FIELDS: Final = ("turn", "part", "own_words", "trigger", "error_pattern", "fix")
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH

Json = dict[str, Any]


@dataclass(slots=True)
class PastSession:
    """What is known of a session while its transcript is read. An `is_copy` repeats or serves another one."""

    name: str
    folder: str = ""
    is_copy: bool = False


class AgentTranscripts(NamedTuple):
    """The transcripts of one agent, which are JSON lines."""

    client: str
    """The agent's name as `connect` knows it, which its hooks save."""
    usual: Callable[[], Sequence[Path]]
    is_transcript: Callable[[str], bool]
    """Whether a file of this name is one."""
    session: Callable[[Path], PastSession]
    note: Callable[[PastSession, Json], bool]
    """Notes what a record says about its session; returns whether the record is of the session itself."""

    def source(self, title: str) -> MemorySource:
        return MemorySource(title, self.usual, self.read)

    def read(self, path: Path) -> Iterator[Item]:
        """Yield what the transcript, or those below a folder, say, oldest file first."""
        files = [path] if not path.is_dir() else sorted(files_below(path, self.is_transcript), key=_age)
        if not files:
            raise Unreadable(f"{path} has no transcripts of {self.client}.", hint="Give another folder.")
        place = path if path in self.usual() else None
        known: set[int] = set()
        for file in files:
            reading = _TranscriptReader(self, file, known, is_own=place is not None and is_own(file))
            try:
                yield from reading.items()
            except OSError as error:
                yield RefusedItem(str(file), f"It cannot be read: {error.strerror}.")


@dataclass(slots=True)
class _TranscriptReader:
    """The reading of one transcript. `known` has the turns of other sessions: resumed ones repeat them."""

    agent: AgentTranscripts
    file: Path
    known: set[int]
    is_own: bool
    refused: list[RefusedItem] = field(default_factory=list)
    damaged: int = 0

    def items(self) -> Iterator[Item]:
        session = self.agent.session(self.file)
        before: set[str] = set()
        for turn in each_turn(self._records(session)):
            yield from self.refused
            self.refused.clear()
            if session.is_copy:
                return
            if self._is_new(turn):
                entries = list(self._entries(turn, session))
                # A summary after an answer is also reported with the turn that follows.
                yield from (self._record(each, turn, session) for each in entries if each.key not in before)
                before = {each.key for each in entries if each.key}
        if self.damaged > MAX_NAMED_LINES:
            more = f"{self.damaged - MAX_NAMED_LINES:,} more lines are damaged."
            yield RefusedItem(str(self.file), more)

    def _records(self, session: PastSession) -> Iterator[Json]:
        """Yield the records; an empty one, which counts as read by the agent, for each damaged line."""
        for line in lines_of(self.file):
            value = None if isinstance(line, RefusedItem) else json_object(line[1])
            if value is None:
                self._refuse(line)
            elif not self.agent.note(session, value):
                continue
            if session.is_copy:
                return
            yield value or {}

    def _refuse(self, line: tuple[int, bytes] | RefusedItem) -> None:
        self.damaged += 1
        if not isinstance(line, RefusedItem):
            line = RefusedItem(f"{self.file.name}:{line[0]}", "The line is not a JSON object.")
        if self.damaged <= MAX_NAMED_LINES:
            self.refused.append(line)

    def _is_new(self, turn: TranscribedTurn) -> bool:
        identity = hash((turn.name or turn.at, turn.prompt))
        if identity in self.known:
            return not (turn.name or turn.at)
        if len(self.known) < MAX_KNOWN_IDS:
            self.known.add(identity)
        return True

    def _entries(self, turn: TranscribedTurn, session: PastSession) -> Iterator[RememberedEntry]:
        name = session_of({"session_id": session.name}) or self.file.stem
        yield from EntryBuilder(self.agent.client, name, "").turn({}, turn)

    def _record(self, entry: RememberedEntry, turn: TranscribedTurn, session: PastSession) -> Record:
        body, at = entry.body, turn.at or modified_ms(self.file)
        fields: Json = {name: body[name] for name in _FIELDS if name in body}
        if not entry.key:  # its turn has a name that nobody sees again
            fields.pop("turn", None)
        texts = [body.get(name, "") for name in ("collection", "session", "part", "trigger", "content")]
        return Record(
            id=entry.key or "\n".join(texts),
            capture=entry.key,
            content=body.get("content", ""),
            collection=body["collection"],
            session=body.get("session"),
            agent=self.agent.client,
            namespace=namespaces_of(session.folder)[0] if self.is_own and session.folder else None,
            created=at,
            updated=at,
            fields=fields,
            trust="agent" if self.is_own and body.get("own_words") else "external",
        )


def _age(file: Path) -> tuple[int, str]:
    try:
        return file.stat().st_mtime_ns, str(file)
    except OSError:  # it is refused when it is read
        return 0, str(file)


def is_own(file: Path) -> bool:
    """Return whether only this user, and root, can have written a file that an agent keeps for the user."""
    try:
        paths = {file, *file.absolute().parents, *file.resolve().parents}
        return not file.is_symlink() and file.stat().st_uid == os.getuid() and all(map(_is_safe, paths))
    except (OSError, RuntimeError):
        return False


def _is_safe(path: Path) -> bool:
    status = path.stat()
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return status.st_uid in {0, os.getuid()} and bool(is_sticky or not status.st_mode & _WRITABLE)
