"""Sessions of opencode: the tables of `opencode.db` in `~/.local/share/opencode`.

A `session` has a `directory`; a `message` and its parts have JSON in `data`: `role`, `time` and `summary`,
and texts and calls of tools. The plugin that `connect` writes gives the hook the same messages in the same
form, with their times, so that both make the same ids. It marks what a command wrote; without it, that looks
typed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from agentctx.times import format_time
from agentctx_importers.files import MAX_TEXT_BYTES, is_inside
from agentctx_importers.foreign_sqlite import ForeignDatabase, opened_database
from agentctx_importers.json_values import json_object
from agentctx_importers.records import RefusedItem
from agentctx_importers.transcripts import AgentTranscripts, Json, PastSession, Records

MARK: Final = "agentctx"
"""The member of a part's `metadata` in which the plugin notes that a command wrote it."""
_SESSIONS: Final = "SELECT id, directory, parent_id FROM session ORDER BY time_created, id"
_MESSAGES: Final = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS: Final = "SELECT data FROM part WHERE message_id = ? ORDER BY id"
_NEWER: Final = "session_v2"
_MAX_ERROR_CHARS: Final = 4_000


def _usual() -> Sequence[Path]:
    given = os.environ.get("XDG_DATA_HOME", "")
    data = Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
    return [data / "opencode"]


def _files(folder: Path) -> Iterable[Path]:
    """Yield the databases: each channel of releases has one, but for the usual ones."""
    return (each for each in sorted(folder.glob("opencode*.db")) if is_inside(each, folder))


def _sessions(file: Path) -> Iterator[tuple[PastSession, Records]]:
    with opened_database(file) as database:
        if database.has(_NEWER):
            yield (
                PastSession(file.stem),
                [RefusedItem(str(file), "Sessions of opencode 2 cannot be read yet.")],
            )
        for name, folder, parent in database.rows(_SESSIONS, "session"):
            about = PastSession(str(name), folder if isinstance(folder, str) else "")
            yield about, _messages(database, str(name), is_users=parent is None)


def _messages(database: ForeignDatabase, session: str, *, is_users: bool) -> Iterator[Json | RefusedItem]:
    for name, data in database.rows(_MESSAGES, "message", values=(session,)):
        if (message := json_object(str(data))) is None:
            yield RefusedItem(f"message {name}", "It is not a JSON object.")
        else:
            rows = database.rows(_PARTS, "part", values=(name,))
            yield from _said(message, (json_object(str(part)) or {} for (part,) in rows), is_users=is_users)


def _said(message: Json, parts: Iterable[Json], *, is_users: bool) -> Iterator[Json]:
    """Yield what `messagesIn` of the plugin makes of a message."""
    created = _object(message.get("time")).get("created")
    about: Json = {"timestamp": format_time(created)} if isinstance(created, int) else {}
    texts: list[str] = []
    room = MAX_TEXT_BYTES
    for part in parts:
        text = part.get("text")
        if part.get("type") == "tool":
            yield about | {"call": _call(part)}
        elif part.get("type") == "text" and isinstance(text, str) and not part.get("synthetic") and room > 0:
            is_users = is_users and MARK not in _object(part.get("metadata"))
            texts.append(text)
            room -= len(text)
    said = "\n".join(texts)
    if message.get("role") == "user":
        yield about | {"prompt": said, "typed": said if is_users else ""}
    else:
        yield about | {"summary" if message.get("summary") is True else "answer": said}


def _call(part: Json) -> Json:
    state = _object(part.get("state"))
    given: Json = _object(state.get("input"))
    failed = state.get("status") == "error" or _object(state.get("metadata")).get("exit")
    error = str(state.get("error") or state.get("output") or "")[-_MAX_ERROR_CHARS:] if failed else None
    known: Json = {name: given[name] for name in ("command", "filePath") if name in given}
    return {"id": part.get("callID"), "name": part.get("tool"), **known, "error": error}


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


TRANSCRIPTS: Final = AgentTranscripts(
    client="opencode",
    usual=_usual,
    files=_files,
    sessions=_sessions,
    tells_typed=False,
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of opencode (~/.local/share/opencode)")
