"""Sessions of Gemini CLI: JSON lines in `tmp/PROJECT/chats/session-TIME-ID.jsonl` below `~/.gemini`.

The first line has the `sessionId` and the `kind`, which is `main` unless the session is a subagent's; it is
repeated when the session is resumed. Messages have `timestamp`, `type` (`user`, `gemini`), `content` and
`toolCalls`; a line with `$set` changes what was said about the session. The folder is in
`tmp/PROJECT/.project_root`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.files import text_of
from agentctx_importers.transcripts import AgentTranscripts, PastSession


def _usual() -> Sequence[Path]:
    return [Path.home() / ".gemini" / "tmp"]


def _session(file: Path) -> PastSession:
    root = file.parent.parent / ".project_root"
    folder = text_of(root) if root.is_file() else ""
    return PastSession(file.stem, folder.strip() if isinstance(folder, str) else "")


def _note(session: PastSession, record: dict[str, Any]) -> bool:
    if isinstance(record.get("sessionId"), str):
        session.name = record["sessionId"]
        session.is_copy = record.get("kind", "main") != "main"
    return True


TRANSCRIPTS: Final = AgentTranscripts(
    client="gemini",
    usual=_usual,
    is_transcript=lambda name: name.startswith("session-") and name.endswith(".jsonl"),
    session=_session,
    note=_note,
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of Gemini CLI (~/.gemini/tmp)")
