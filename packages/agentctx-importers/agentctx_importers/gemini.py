"""Sessions of Gemini CLI: JSON lines in `tmp/PROJECT/chats/session-TIME-ID.jsonl` below `~/.gemini`.

The first line has the `sessionId` and the `kind`, which is `main` unless the session is a subagent's; it is
repeated when the session is resumed. Messages have `timestamp`, `type` (`user`, `gemini`), `content` and
`toolCalls`; a line with `$set` changes what was said about the session. The folder is in
`tmp/PROJECT/.project_root`.

Older versions wrote one document, `session-TIME-ID.json`, whose `messages` are the same, and named the
project by a digest of its folder. Newer ones copy what they find there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import opened, text_of
from agentctx_importers.json_elements import values
from agentctx_importers.records import RefusedItem
from agentctx_importers.transcripts import (
    AgentTranscripts,
    Json,
    PastSession,
    Records,
    json_lines,
    named_files,
    one_session,
)

_ROOT: Final = ".project_root"
_DIGEST_CHARS: Final = 64
_ENDS: Final = (".json", ".jsonl")


def _usual() -> Sequence[Path]:
    return [Path.home() / ".gemini" / "tmp"]


def _session(file: Path) -> PastSession:
    return PastSession(file.stem, _folder(file.parent.parent))


def _folder(project: Path) -> str:
    """Return the folder of a project; one that is named by a digest may have a copy that knows it."""
    if (project / _ROOT).is_file():
        return _text(project / _ROOT)
    known = map(_text, project.parent.glob(f"*/{_ROOT}")) if len(project.name) == _DIGEST_CHARS else ()
    return next((each for each in known if sha256(each.encode()).hexdigest() == project.name), "")


def _text(file: Path) -> str:
    text = text_of(file)
    return text.strip() if isinstance(text, str) else ""


def _records(file: Path) -> Records:
    return _document(file) if file.suffix == ".json" else json_lines(file)


def _document(file: Path) -> Iterator[Json | RefusedItem]:
    """Yield what the document says about the session, and its messages."""
    with opened(file) as stream:
        for number, value in enumerate(values(stream), start=1):
            about = value if isinstance(value, dict) else {}
            messages = about.pop("messages", [])
            for each in (about, *(messages if isinstance(messages, list) else [])):
                is_read = isinstance(each, dict)
                yield each if is_read else RefusedItem(f"{file.name}: {number}", "It is not a message.")


def _note(session: PastSession, record: dict[str, Any]) -> bool:
    if isinstance(record.get("sessionId"), str):
        session.name = record["sessionId"]
        session.is_copy = record.get("kind", "main") != "main"
    return True


TRANSCRIPTS: Final = AgentTranscripts(
    client="gemini",
    usual=_usual,
    files=named_files(lambda name: name.startswith("session-") and name.endswith(_ENDS)),
    sessions=one_session(_session, _note, _records),
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of Gemini CLI (~/.gemini/tmp)")
