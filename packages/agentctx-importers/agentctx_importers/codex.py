"""Sessions of Codex: JSON lines in `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl` below its folder.

A line has `timestamp`, `type` and `payload`. The first is `session_meta` with the session's `id` and `cwd`;
its `source` is an object for a subagent's session, which repeats its parent. `event_msg` has what was said,
with `turn_id`; `response_item` the calls of tools; `compacted` a summary.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.transcripts import AgentTranscripts, PastSession


def _usual() -> Sequence[Path]:
    home = os.environ.get("CODEX_HOME")
    folder = Path(home) if home else Path.home() / ".codex"
    return [folder / "sessions", folder / "archived_sessions"]


def _note(session: PastSession, record: dict[str, Any]) -> bool:
    about = record.get("payload")
    if record.get("type") != "session_meta" or not isinstance(about, dict) or session.folder:
        return True
    if isinstance(about.get("id"), str):
        session.name = about["id"]
    if isinstance(about.get("cwd"), str):
        session.folder = about["cwd"]
    session.is_copy = isinstance(about.get("source"), dict)
    return True


TRANSCRIPTS: Final = AgentTranscripts(
    client="codex",
    usual=_usual,
    is_transcript=lambda name: name.startswith("rollout-") and name.endswith(".jsonl"),
    session=lambda file: PastSession(file.stem),
    note=_note,
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of Codex (~/.codex/sessions)")
