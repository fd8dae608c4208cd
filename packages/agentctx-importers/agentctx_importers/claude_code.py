"""Sessions of Claude Code: JSON lines in `projects/FOLDER/SESSION.jsonl` below its folder.

A line has a `type`. `user` and `assistant` have a `message` of the API, `promptId` (the turn), `timestamp`,
`cwd` and `isSidechain` (a subagent's); `attachment`, `system` and others are notes. A branch begins with a
copy of its session, with `forkedFrom` in each line. Subagents have files in folders of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from agentctx_importers.transcripts import AgentTranscripts, PastSession, named_files, one_session

_NAME: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jsonl")


def _usual() -> Sequence[Path]:
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    return [(Path(home) if home else Path.home() / ".claude") / "projects"]


def _note(session: PastSession, record: dict[str, Any]) -> bool:
    if not session.folder and isinstance(record.get("cwd"), str):
        session.folder = record["cwd"]
    return "forkedFrom" not in record


TRANSCRIPTS: Final = AgentTranscripts(
    client="claude-code",
    usual=_usual,
    files=named_files(lambda name: _NAME.fullmatch(name) is not None),
    sessions=one_session(lambda file: PastSession(file.stem), _note),
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of Claude Code (~/.claude/projects)")
