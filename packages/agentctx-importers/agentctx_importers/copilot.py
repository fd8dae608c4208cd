"""Sessions of Copilot CLI: JSON lines in `session-state/SESSION/events.jsonl` below `~/.copilot`.

An event has `type`, `timestamp` and `data`. `session.start` has the `sessionId` and `context.cwd`;
`user.message` and `assistant.message` the `content`; then there are the calls of tools, compactions and, as
`hook.start`, each hook.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.transcripts import AgentTranscripts, PastSession, named_files, one_session


def _usual() -> Sequence[Path]:
    return [Path.home() / ".copilot" / "session-state"]


def _note(session: PastSession, record: dict[str, Any]) -> bool:
    data = record.get("data")
    if record.get("type") == "session.start" and isinstance(data, dict):
        context = data.get("context")
        if isinstance(data.get("sessionId"), str):
            session.name = data["sessionId"]
        if isinstance(context, dict) and isinstance(context.get("cwd"), str):
            session.folder = context["cwd"]
    return True


TRANSCRIPTS: Final = AgentTranscripts(
    client="copilot",
    usual=_usual,
    files=named_files(lambda name: name == "events.jsonl"),
    sessions=one_session(lambda file: PastSession(file.parent.name), _note),
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of GitHub Copilot CLI (~/.copilot/session-state)")
