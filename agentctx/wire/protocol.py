"""Types and constants of the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar, dataclass_transform

T = TypeVar("T")

API_PREFIX = "/v1"
IDEMPOTENCY_HEADER = "Idempotency-Key"
VERSION_HEADER = "X-Agentctx-Version"
REQUEST_ID_HEADER = "X-Request-Id"

DEFAULT_NAMESPACE = "default"
MAX_NAMESPACES = 8
"""Maximum number of namespaces in one question; each is searched separately."""
MAX_MARKED = 1_000
"""Maximum number of entries whose files are marked by one request, in one transaction."""
COLLECTIONS = ("knowledge", "observation", "reflection", "learning")

Origin = Literal["user", "agent", "tool", "document", "import", "capture"]
Trust = Literal["operator", "agent", "external"]
ImportTrust = Literal["external", "agent"]
"""The trust that an import may request."""
Order = Literal["distance", "relevance"]
InjectionPosition = Literal["system", "tail"]
ActionKind = Literal["run", "write", "read"]
"""Whether an agent runs a command, or writes or reads a file."""
Fate = Literal[
    "injected",
    "relevance",
    "twin",
    "distance",
    "share",
    "limit",
    "stale",
    "present",
    "duplicate",
    "flagged",
    "cap",
    "budget",
    "refused",
]
"""Whether a passage that was found for an injection is injected, or why not."""
Closure = Literal["superseded", "resolved"]
"""What a newer entry did to an older one, which answers then leave out."""
Absence = Literal["not_found", "expired", "quarantined", "waiting", "withdrawn", "superseded"]
"""Why no question can find an entry."""
Verdict = Literal[
    Fate, Absence, "namespace", "filter", "trust", "off", "no_question", "no_vector", "no_match"
]
"""Why an entry is in an injection or not."""
Quarantine = Literal["screened", "revoked", "waiting"]
"""Why answers exclude an entry: its text was flagged, its source revoked, or it waits for a review."""
RememberMode = Literal["review", "auto"]
"""Whether what is captured waits until somebody keeps it."""
CaptureMode = Literal["auto", "review", "always"]
"""The same of an agent in a namespace; `always`: somebody said in a review that it need not wait any more."""
ReviewWay = Literal["terminal", "page", "elicitation"]
"""Where somebody was asked: in `agentctx review`, in the page, or by an MCP client."""
FileSight = Literal["stale", "withdrawn"]
"""`stale`: the entry's file could not be seen; `withdrawn`: it is gone or says something else."""
EmbeddingState = Literal["pending", "done", "off"]
EditableField = Literal[
    "content",
    "category",
    "tags",
    "cues",
    "source",
    "supersedes",
    "resolves",
    "trigger",
    "error_pattern",
    "diagnosis",
    "fix",
    "ttl",
]
"""The fields that an edit may set or clear."""
CalibrationState = Literal["ready", "pending", "off", "unusable"]
"""Whether relevance can use a model's similarities; `unusable`: they do not tell texts apart."""
TurnPart = Literal["prompt", "answer"]
PlaceUnit = Literal["line", "page", "slide", "sheet", "cell"]
CheckStatus = Literal["pass", "warn", "fail", "skip"]
ReembedStage = Literal["off", "held", "building", "comparing", "ready", "kept"]
ReembedAction = Literal["approve", "switch", "rollback", "retire"]
"""`approve`: accept the cost; `switch`: make the next model answer; `rollback`: make the former one answer
again; `retire`: drop the former one."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def request_body(cls: type[T]) -> type[T]:
    """Make a dataclass that pydantic validates strictly: no coercion, unknown fields are errors."""
    made = dataclass(frozen=True, kw_only=True, slots=True)(cls)
    made.__pydantic_config__ = {"extra": "forbid", "strict": True}  # type: ignore[attr-defined]
    return made
