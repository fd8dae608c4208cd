"""claude-mem: its observations, and the summaries of sessions as reflections."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.foreign_sqlite import opened_database
from agentctx_importers.json_values import texts_in, time_ms
from agentctx_importers.records import Item, MemorySource, Record, Unreadable

_FILE: Final = "claude-mem.db"
_OBSERVATIONS: Final = (
    "SELECT o.id, s.content_session_id, o.memory_session_id, o.project, o.type, o.title, o.subtitle, "
    "o.narrative, o.text, o.facts, o.concepts, o.created_at_epoch FROM observations o "
    "LEFT JOIN sdk_sessions s ON s.memory_session_id = o.memory_session_id ORDER BY o.id"
)
_SUMMARIES: Final = (
    "SELECT u.id, s.content_session_id, u.memory_session_id, u.project, u.created_at_epoch, u.request, "
    "u.investigated, u.learned, u.completed, u.next_steps FROM session_summaries u "
    "LEFT JOIN sdk_sessions s ON s.memory_session_id = u.memory_session_id ORDER BY u.id"
)
_PARTS: Final = ("Request", "Investigated", "Learned", "Completed", "Next steps")


def _usual() -> Sequence[Path]:
    return [Path(os.environ.get("CLAUDE_MEM_DATA_DIR") or Path.home() / ".claude-mem") / _FILE]


def _read(path: Path) -> Iterator[Item]:
    file = path / _FILE if path.is_dir() else path
    if not file.is_file():
        raise Unreadable(f"{path} has no {_FILE}.", hint="Give the folder ~/.claude-mem.")
    with opened_database(file) as database:
        for row in database.rows(_OBSERVATIONS, "observations", "sdk_sessions"):
            yield _observation(*row)
        for row in database.rows(_SUMMARIES, "session_summaries", "sdk_sessions"):
            yield _summary(*row)


def _observation(
    number: int,
    session: Any,
    own_session: Any,
    project: Any,
    kind: Any,
    title: Any,
    subtitle: Any,
    narrative: Any,
    text: Any,
    facts: Any,
    concepts: Any,
    created: Any,
) -> Record:
    listed = [f"- {fact}" for fact in texts_in(facts)]
    parts = [each for each in (title, subtitle, narrative or text, "\n".join(listed)) if each]
    labels = (kind, project, *texts_in(concepts))
    return _record(f"observation/{number}", "observation", session or own_session, parts, labels, created)


def _summary(number: int, session: Any, own_session: Any, project: Any, created: Any, *texts: Any) -> Record:
    parts = [f"{name}: {text}" for name, text in zip(_PARTS, texts, strict=True) if text]
    return _record(f"summary/{number}", "reflection", session or own_session, parts, (project,), created)


def _record(
    name: str, collection: str, session: Any, parts: list[Any], labels: Sequence[Any], created: Any
) -> Record:
    time = time_ms(created)
    return Record(
        id=f"{session}/{name}",
        collection=collection,
        content="\n\n".join(map(str, parts)),
        tags=("claude-mem", *(str(each) for each in labels if each)),
        session=str(session) if session else None,
        agent="claude-code",
        created=time,
        updated=time,
    )


SOURCE: Final = MemorySource("claude-mem: observations and summaries of sessions", _usual, _read)
