"""Saving, reading, changing and forgetting entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from agentctx.wire.failures import ErrorReply
from agentctx.wire.names import (
    DEFAULT_NAMESPACE,
    STRICT,
    EditableField,
    EmbeddingState,
    Origin,
    PlaceUnit,
    Quarantine,
    Trust,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRecord:
    """The file whose text an entry holds, whole or in part; the entry's `source` is its path.

    `places` are pairs `[offset in content, number]`, ascending: from that code point on the text is on line
    (page, slide, sheet, cell) `number` of the file. With unit `line`, line breaks after a place count up, so
    the text of a plain file needs one pair.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    digest: str
    """SHA-256 of the file's bytes, hexadecimal."""
    size: int
    """Bytes."""
    modified: int
    """Nanoseconds since the epoch."""
    part: int = 1
    parts: int = 1
    """Long files are saved in several entries."""
    unit: PlaceUnit = "line"
    places: list[list[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveRequest:
    """One entry to save. docs/http-api.md says which fields a collection takes; others are errors."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    collection: str
    """`knowledge`, `observation`, `reflection`, `learning`, or one declared in the config."""
    content: str | None = None
    """The text, as it is found and shown. Learnings have none: it is made of their fields."""
    namespace: str = DEFAULT_NAMESPACE
    """Its users share the entry."""
    session: str | None = None
    """The conversation it belongs to. Observations and reflections need one."""
    agent: str | None = None
    """Name of the agent that saves it; found by words and filtered by."""
    origin: Origin = "agent"
    """What made the entry; it decides the trust."""
    derived_from: list[str] | None = None
    """Ids of the entries it was made of. Its trust is the least of its own and theirs; one that is not in the
    namespace counts as `external`."""
    ttl: str | None = None
    """How long to keep it: a number and s, m, h, d or w (`30d`)."""
    if_version: int | None = None
    """Save only if this is the live version; 0: only if the key is new."""
    wait: Literal["embedded"] | None = None
    """`embedded`: answer when it can be found by meaning, or after 30 s."""
    key: str | None = None
    """Name of it in its collection; saving it again makes a new version."""
    category: str | None = None
    tags: list[str] | None = None
    cues: list[str] | None = None
    """Up to 8 questions or situations in which it matters, in other words than its own. They find it and are
    never shown as its text."""
    source: str | None = None
    """Where it is from: a path, an address."""
    file: FileRecord | None = None
    """Set for the text of an ingested file."""
    token_count: int | None = None
    source_start_index: int | None = None
    source_end_index: int | None = None
    generation: int | None = None
    """Of a reflection: 1 is on observations, 2 on reflections, and so on."""
    trigger: str | None = None
    """What was being done when it went wrong."""
    error_pattern: str | None = None
    """Text of the error that recurs; ids, times, paths and numbers in it do not matter."""
    diagnosis: str | None = None
    fix: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveManyRequest:
    """Many entries, saved independently: each gets its own result, in order."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    entries: list[SaveRequest]


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveResult:
    """The acknowledgement: what is in it is on disk."""

    id: str
    version: int
    changed: bool
    """False when the same content and attributes were there already."""
    redacted: list[str] = field(default_factory=list)
    """The kinds of secrets that were cut out before anything was stored."""
    embedding: EmbeddingState = "pending"
    """`done`: found by meaning; `pending`: soon; `off`: nothing is embedded."""
    flags: list[str] = field(default_factory=list)
    """What its text looks like that an LLM might obey."""
    quarantined: bool = False
    """Whether no answer will hold it until it is released."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveManyReply:
    """A result or an error for each entry, in the order sent."""

    results: list[SaveResult | ErrorReply]


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest:
    """Fields to change in an entry; absent fields stay. `if_version` guards against lost updates.

    In JSON, null takes a field away, as its name in `clear` does; what an entry must have is refused.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    content: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    cues: list[str] | None = None
    """Take the place of those it has."""
    source: str | None = None
    trigger: str | None = None
    error_pattern: str | None = None
    diagnosis: str | None = None
    fix: str | None = None
    ttl: str | None = None
    """How long to keep it from now: `30d`."""
    if_version: int | None = None
    """The version that was read; another live one is a 409."""
    wait: Literal["embedded"] | None = None
    clear: list[EditableField] | None = None
    """Fields to take away: `category` is the default one again, `tags` and `cues` are none, without `ttl` it
    is kept."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        # A core schema is a plain dict, so the protocol needs no pydantic for it.
        function = {"type": "no-info", "function": _nulls_cleared}
        return {"type": "function-before", "function": function, "schema": handler(source)}


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryView:
    """A saved entry, one version of it."""

    id: str
    """Stable over all versions."""
    version: int
    live: bool
    """Whether this is the version that is found."""
    namespace: str
    collection: str
    key: str | None
    session: str | None
    agent: str | None
    content: str
    attributes: dict[str, Any]
    """The fields of its collection that are not the text."""
    origin: Origin
    trust: Trust
    """`operator`, `agent` or `external`; nothing raises it."""
    principal: int
    """The kernel's uid of who saved it."""
    created: str
    updated: str
    expires: str | None
    embedding: EmbeddingState
    flags: list[str] = field(default_factory=list)
    """What the text of the live version looks like that an LLM might obey."""
    derived_from: list[str] = field(default_factory=list)
    """Ids of the entries it was made of, there or not."""
    quarantined: Quarantine | None = None
    """Why no answer holds it: `screened` for its flags, `revoked` with its source; null when answers may."""
    revocation: int | None = None
    """Which revocation holds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPage:
    """Newest first. `next` is the cursor of the following page, null on the last."""

    entries: list[EntryView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionPage:
    """Versions of one entry, newest first. `next` is the cursor of the following page, null on the last."""

    versions: list[EntryView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetReply:
    """The entry, its versions, chunks, words, vectors and jobs are gone."""

    id: str
    versions: int
    """How many versions it had."""
    copies: list[str] = field(default_factory=list)
    """Captured replies that repeat its text and are still there."""
    copies_forgotten: list[str] = field(default_factory=list)
    """Those that were forgotten with it."""
    backups: int = 0
    """Backups in the daemon's folder, and databases that a restore replaced, that may hold it."""
    backups_oldest: str | None = None
    """When the oldest of them was made."""
    backups_until: str | None = None
    """When newer ones will have replaced the last of them; null: never without action."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRequest:
    """Whether applying a learning worked."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    success: bool


def _nulls_cleared(body: Any) -> Any:
    """The body of an edit with its nulls named in `clear`; one of another shape is returned as it is."""
    if not isinstance(body, dict) or not isinstance(body.get("clear"), list | None):
        return body
    named = body.get("clear") or []
    nulls = [name for name in get_args(EditableField) if name in body and body[name] is None]
    rest = {name: value for name, value in body.items() if name not in (*nulls, "clear")}
    return {**rest, "clear": [*named, *nulls]} if named or nulls else rest
