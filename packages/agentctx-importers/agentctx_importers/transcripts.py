"""Past sessions of agents: the turns, learnings and summaries that their hooks would have saved.

The hooks' own code reads the transcripts and chooses what to remember, so it has the same text, and the same
id as what a hook saved of the session.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentctx.agents.hooks.hook_events import session_of
from agentctx.config.project import namespaces_of
from agentctx_importers.files import files_below, lines_of, modified_ms
from agentctx_importers.json_values import json_object
from agentctx_importers.records import MAX_KNOWN_IDS, Item, MemorySource, Record, RefusedItem, Unreadable

if TYPE_CHECKING:
    from agentctx.agents.hooks.remembered_entries import RememberedEntry
    from agentctx.agents.hooks.transcribed_turns import TranscribedTurn

MAX_NAMED_LINES: Final = 20
"""Of the damaged lines of a transcript, the first ones are named and the others counted."""
_FIELDS: Final = ("turn", "part", "own_words", "trigger", "error_pattern", "fix")
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH

Json = dict[str, Any]
Records: TypeAlias = Iterable[Json | RefusedItem]
"""What a session says, in order; a refusal for each part of it that cannot be read."""


@dataclass(slots=True)
class PastSession:
    """What is known of a session while its transcript is read. An `is_copy` repeats or serves another one."""

    name: str
    folder: str = ""
    is_copy: bool = False


class AgentTranscripts(NamedTuple):
    """The transcripts of one agent."""

    client: str
    """The agent's name as `connect` knows it, which its hooks save."""
    usual: Callable[[], Sequence[Path]]
    files: Callable[[Path], Iterable[Path]]
    """Returns the transcripts below a folder."""
    sessions: Callable[[Path], Iterator[tuple[PastSession, Records]]]
    """Yields the sessions of a transcript with what they say. The first may become known while reading."""
    tells_typed: bool = True
    """Whether it tells what was typed from what a command wrote; if not, all is external."""

    def source(self, title: str) -> MemorySource:
        return MemorySource(title, self.usual, self.read, self.files)

    def read(self, path: Path) -> Iterator[Item]:
        """Yield what the transcript, or those below a folder, say, oldest file first."""
        files = [path] if not path.is_dir() else sorted(self.files(path), key=_age)
        if not files:
            raise Unreadable(f"{path} has no transcripts of {self.client}.", hint="Give another folder.")
        place = path if path in self.usual() else None
        known: set[int] = set()
        for file in files:
            owned = place is not None and is_own(file)
            try:
                for session, records in self.sessions(file):
                    yield from _SessionReader(self, file, session, records, known, owned).items()
            except (OSError, Unreadable) as error:
                if file == path:
                    raise
                yield RefusedItem(str(file), _reason(error))


def json_lines(file: Path, lines: Callable[[Path], Iterator[Any]] = lines_of) -> Iterator[Json | RefusedItem]:
    """Yield the objects of JSON lines, which `lines` reads."""
    for line in lines(file):
        if isinstance(line, RefusedItem):
            yield line
        elif (value := json_object(line[1])) is not None:
            yield value
        else:
            yield RefusedItem(f"{file.name}:{line[0]}", "The line is not a JSON object.")


def named_files(is_transcript: Callable[[str], bool]) -> Callable[[Path], Iterable[Path]]:
    """Return what finds the files below a folder whose names are those of transcripts."""
    return partial(files_below, is_wanted=is_transcript)


def one_session(
    about: Callable[[Path], PastSession],
    note: Callable[[PastSession, Json], bool],
    records: Callable[[Path], Records] = json_lines,
) -> Callable[[Path], Iterator[tuple[PastSession, Records]]]:
    """Return what reads transcripts of a session each.

    `note` notes what a record says about its session, and returns whether it is of the session itself.
    """

    def sessions(file: Path) -> Iterator[tuple[PastSession, Records]]:
        session = about(file)
        yield (
            session,
            (each for each in records(file) if isinstance(each, RefusedItem) or note(session, each)),
        )

    return sessions


@dataclass(slots=True)
class _SessionReader:
    """The reading of one session. `known` has the turns of other sessions: resumed ones repeat them."""

    agent: AgentTranscripts
    file: Path
    session: PastSession
    records: Records
    known: set[int]
    is_own: bool
    refused: list[RefusedItem] = field(default_factory=list)
    damaged: int = 0

    def items(self) -> Iterator[Item]:
        from agentctx.agents.hooks.transcribed_turns import each_turn  # slow to import

        before: set[str] = set()
        for turn in each_turn(self._records()):
            yield from self.refused
            self.refused.clear()
            if self.session.is_copy:
                return
            if self._is_new(turn):
                entries = list(self._entries(turn))
                # A summary after an answer is also reported with the turn that follows.
                yield from (self._record(each, turn) for each in entries if each.key not in before)
                before = {each.key for each in entries if each.key}
        if self.damaged > MAX_NAMED_LINES:
            more = f"{self.damaged - MAX_NAMED_LINES:,} more lines are damaged."
            yield RefusedItem(str(self.file), more)

    def _records(self) -> Iterator[Json]:
        """Yield the records; an empty one, which counts as read by the agent, for each that is damaged."""
        try:
            for each in self.records:
                if self.session.is_copy:
                    return
                if isinstance(each, RefusedItem):
                    self.damaged += 1
                    if self.damaged <= MAX_NAMED_LINES:
                        self.refused.append(each)
                yield {} if isinstance(each, RefusedItem) else each
        except (OSError, Unreadable) as error:  # what was read before is a session still
            self.refused.append(RefusedItem(str(self.file), _reason(error)))

    def _is_new(self, turn: TranscribedTurn) -> bool:
        identity = hash((turn.name or turn.at, turn.prompt))
        if identity in self.known:
            return not (turn.name or turn.at)
        if len(self.known) < MAX_KNOWN_IDS:
            self.known.add(identity)
        return True

    def _entries(self, turn: TranscribedTurn) -> Iterator[RememberedEntry]:
        from agentctx.agents.hooks.remembered_entries import EntryBuilder

        name = session_of({"session_id": self.session.name}) or self.file.stem
        yield from EntryBuilder(self.agent.client, name, "").turn({}, turn)

    def _record(self, entry: RememberedEntry, turn: TranscribedTurn) -> Record:
        body, at, folder = entry.body, turn.at or modified_ms(self.file), self.session.folder
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
            namespace=namespaces_of(folder)[0] if self.is_own and folder else None,
            created=at,
            is_dated=bool(turn.at),
            updated=at,
            fields=fields,
            trust="agent" if self.is_own and self.agent.tells_typed and body.get("own_words") else "external",
        )


def _reason(error: OSError | Unreadable) -> str:
    return error.message if isinstance(error, Unreadable) else f"It cannot be read: {error.strerror}."


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
