"""What ingest found about the files of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentctx.wire.protocol import DEFAULT_NAMESPACE, request_body


@request_body
class FileMark:
    """What was found about the files of some entries. `present`: they say what the entries say."""

    entries: list[str]
    state: Literal["present", "stale", "withdrawn"]
    reason: str = ""


@request_body
class MarkFilesRequest:
    """Marks for entries of one namespace that come from files; other ids are passed over."""

    namespace: str = DEFAULT_NAMESPACE
    marks: list[FileMark]


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkFilesReply:
    """How many of the entries exist."""

    entries: int
