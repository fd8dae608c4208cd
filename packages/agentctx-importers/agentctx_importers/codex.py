"""Sessions of Codex: JSON lines in `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl` below its folder.

A line has `timestamp`, `type` and `payload`. The first is `session_meta` with the session's `id` and `cwd`;
its `source` is an object for a subagent's session, which repeats its parent. `event_msg` has what was said,
with `turn_id`; `response_item` the calls of tools; `compacted` a summary. After a week Codex may compress a
rollout to `.jsonl.zst`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from agentctx_importers.compressed import opened_zstd
from agentctx_importers.files import files_below, lines_of
from agentctx_importers.transcripts import AgentTranscripts, PastSession, Records, json_lines, one_session

_COMPRESSED: Final = ".zst"


def _usual() -> Sequence[Path]:
    home = os.environ.get("CODEX_HOME")
    folder = Path(home) if home else Path.home() / ".codex"
    return [folder / "sessions", folder / "archived_sessions"]


def _files(folder: Path) -> Iterable[Path]:
    """Yield the rollouts; one that was resumed may be there in both forms."""
    ends = (".jsonl", f".jsonl{_COMPRESSED}")
    for file in files_below(folder, lambda name: name.startswith("rollout-") and name.endswith(ends)):
        if file.suffix != _COMPRESSED or not file.with_suffix("").exists():
            yield file


def _records(file: Path) -> Records:
    is_compressed = file.suffix == _COMPRESSED
    return json_lines(file, partial(lines_of, open_as=opened_zstd) if is_compressed else lines_of)


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
    files=_files,
    sessions=one_session(lambda file: PastSession(file.stem), _note, _records),
)
SOURCE: Final = TRANSCRIPTS.source("past sessions of Codex (~/.codex/sessions)")
