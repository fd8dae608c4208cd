"""Saving, reading, changing and forgetting entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from agentctx.wire.failures import ErrorReply
from agentctx.wire.protocol import (
    DEFAULT_NAMESPACE,
    Closure,
    EditableField,
    EmbeddingState,
    FileSight,
    Origin,
    PlaceUnit,
    Quarantine,
    RememberMode,
    Trust,
    TurnPart,
    request_body,
)


@request_body
class FileRecord:
    """The file from which an entry's text comes, whole or in part; the entry's `source` is its path.

    `places` are pairs `[offset in content, number]`, ascending: from this code point on, the text is on line
    (page, slide, sheet, cell) `number` of the file. With unit `line`, line breaks after a place count up, so
    the text of a plain file needs only one pair.
    """

    digest: str
    """SHA-256 of the file's bytes, hexadecimal."""
    size: int
    """Bytes."""
    modified: int
    """Nanoseconds since the epoch."""
    part: int = 1
    parts: int = 1
    """Number of entries that the file is saved in; long files need several."""
    unit: PlaceUnit = "line"
    places: list[list[int]]
    device: int | None = None
    """The file system that the file was on."""
    folder: int | None = None
    """The inode of its folder. With `device`, it tells a deleted file from a disk that is not mounted."""


@request_body
class SaveRequest:
    """One entry to save. docs/http-api.md says which fields a collection takes; others are errors."""

    collection: str
    """`knowledge`, `observation`, `reflection`, `learning`, or one declared in the config."""
    content: str | None = None
    """The text, as it is found and shown. Learnings take none: their text is made of their fields."""
    namespace: str = DEFAULT_NAMESPACE
    """The namespace, which decides who shares the entry."""
    session: str | None = None
    """The conversation that the entry belongs to. Required for observations and reflections."""
    agent: str | None = None
    """Name of the agent that saves the entry; searchable, and usable as a filter."""
    origin: Origin = "agent"
    """Who made the entry and how; decides its trust."""
    remember: RememberMode | None = None
    """What the capturing hook was set to. `review`: a new entry waits until somebody keeps it, as does all
    that this agent captures in the namespace from then on."""
    derived_from: list[str] | None = None
    """Ids of the entries from which this one was made. Its trust is the lowest of its own and theirs; an id
    that is not in the namespace counts as `external`."""
    ttl: str | None = None
    """How long to keep the entry: a number and s, m, h, d or w (`30d`)."""
    if_version: int | None = None
    """Save only if this is the live version; 0: only if the key does not exist."""
    wait: Literal["embedded"] | None = None
    """`embedded`: reply once the entry can be found by meaning, at the latest after 30 s."""
    key: str | None = None
    """Name of the entry in its collection; saving an existing key adds a version."""
    category: str | None = None
    tags: list[str] | None = None
    cues: list[str] | None = None
    """Up to 8 questions or situations in which the entry matters, in other words than its own. They are
    searched, and never shown as its text."""
    source: str | None = None
    """Where the entry comes from: a path or an address."""
    supersedes: list[str] | None = None
    """Ids or keys of entries of the namespace in whose place this one is: answers leave them out."""
    resolves: list[str] | None = None
    """The same for entries, like open questions, that this one settles."""
    file: FileRecord | None = None
    """Set for the text of an ingested file."""
    token_count: int | None = None
    source_start_index: int | None = None
    source_end_index: int | None = None
    turn: str | None = None
    """For observations: the turn of the conversation that the text is a part of, by any name."""
    part: TurnPart | None = None
    """Which part of its turn an observation is: what the user typed, or the answer."""
    own_words: bool | None = None
    """Whether a captured part has nothing that was read: a prompt that its user typed, or an answer in a
    conversation where nothing was read. Its trust is then `agent`, unless it resembles instructions."""
    generation: int | None = None
    """For reflections: 1 reflects on observations, 2 on reflections, and so on."""
    trigger: str | None = None
    """What the agent was doing when the error occurred."""
    error_pattern: str | None = None
    """Text of the recurring error; ids, times, paths and numbers in it are ignored."""
    diagnosis: str | None = None
    fix: str | None = None


@request_body
class SaveManyRequest:
    """Many entries, saved independently: each gets its own result, in order."""

    entries: list[SaveRequest]


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveResult:
    """The acknowledgement: the save is on disk."""

    id: str
    version: int
    changed: bool
    """False if the entry already had the same content and attributes."""
    redacted: list[str] = field(default_factory=list)
    """The kinds of secrets that were redacted before anything was stored."""
    embedding: EmbeddingState = "pending"
    """`done`: can be found by meaning; `pending`: will be soon; `off`: embedding is off."""
    flags: list[str] = field(default_factory=list)
    """The kinds of instructions to an LLM that the text resembles."""
    quarantined: bool = False
    """Whether the entry is in quarantine, and in no answer until it is released."""
    superseded_by: list[str] = field(default_factory=list)
    """Ids of the entries because of which no answer has this one, which was saved again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveManyReply:
    """A result or an error for each entry, in the order sent."""

    results: list[SaveResult | ErrorReply]


@request_body
class EditRequest:
    """Fields to change in an entry; absent fields stay. `if_version` guards against lost updates.

    In JSON, null clears a field, like its name in `clear`; required fields cannot be cleared.
    """

    content: str | None = None
    category: str | None = None
    tags: list[str] | None = None
    cues: list[str] | None = None
    """Replaces the present cues."""
    source: str | None = None
    supersedes: list[str] | None = None
    """Replaces what it supersedes: who is named no more is in the answers again."""
    resolves: list[str] | None = None
    trigger: str | None = None
    error_pattern: str | None = None
    diagnosis: str | None = None
    fix: str | None = None
    ttl: str | None = None
    """How long to keep the entry from now on: `30d`."""
    if_version: int | None = None
    """The version that was read; if another one is live, the reply is a 409."""
    wait: Literal["embedded"] | None = None
    clear: list[EditableField] | None = None
    """Fields to clear: `category` gets its default, lists become empty, without `ttl` the entry does not
    expire."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        # A core schema is a plain dict, so this module does not need pydantic.
        function = {"type": "no-info", "function": _nulls_cleared}
        return {"type": "function-before", "function": function, "schema": handler(source)}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """What the last look at an entry's file found, where that differs from the entry."""

    state: FileSight
    reason: str
    since: str
    until: str | None
    """When a withdrawn entry is erased; null: never, since it is stale or revoked, or nothing is erased."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryView:
    """One version of a saved entry."""

    id: str
    """The same for all versions."""
    version: int
    live: bool
    """Whether this version is the live one, which is searched."""
    namespace: str
    collection: str
    key: str | None
    session: str | None
    agent: str | None
    content: str
    attributes: dict[str, Any]
    """The fields of the collection, without the text."""
    origin: Origin
    trust: Trust
    """`operator`, `agent` or `external`; only an explicit act of the operator raises it."""
    principal: int
    """The kernel's uid of the process that saved the entry."""
    created: str
    updated: str
    expires: str | None
    embedding: EmbeddingState
    flags: list[str] = field(default_factory=list)
    """The kinds of instructions to an LLM that the text of the live version resembles."""
    derived_from: list[str] = field(default_factory=list)
    """Ids of the entries from which this one was made, whether they still exist or not."""
    quarantined: Quarantine | None = None
    """Why answers exclude the entry: `screened` for its flags, `revoked` with its source, `waiting` for a
    review; null otherwise."""
    revocation: int | None = None
    """The revocation that keeps the entry in quarantine."""
    waiting: str | None = None
    """Since when it waits for a review."""
    file_state: FileState | None = None
    """Set if the entry's file could not be seen, is gone or says something else."""
    superseded: Closure | None = None
    """Whether another entry supersedes or resolves this one, so that answers leave it out."""
    superseded_by: list[str] = field(default_factory=list)
    """The ids of that entry and of those that supersede it in turn, nearest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPage:
    """A page of entries, newest first. `next` is the cursor of the following page, null on the last."""

    entries: list[EntryView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionPage:
    """Versions of one entry, newest first. `next` is the cursor of the following page, null on the last."""

    versions: list[EntryView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceCount:
    """A namespace, and how many entries a list of it shows."""

    namespace: str
    entries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceList:
    """The namespaces that have entries and that the caller may read, the largest first."""

    namespaces: list[NamespaceCount]
    more: int
    """How many others there are: at most 1,000 are listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetReply:
    """Confirms that the entry is erased with its versions, chunks, words, vectors and jobs."""

    id: str
    versions: int
    """How many versions it had."""
    copies: list[str] = field(default_factory=list)
    """Captured replies that repeat the text and still exist."""
    copies_forgotten: list[str] = field(default_factory=list)
    """Captured replies that were forgotten together with the entry."""
    parts: list[str] = field(default_factory=list)
    """The other parts of the same turn of a conversation, which still exist."""
    backups: int = 0
    """Automatic backups that still hold the entry."""
    backups_until: str | None = None
    """When newer backups will have replaced the last of these; null: never, unless someone deletes it."""
    remains: list[str] = field(default_factory=list)
    """Other places where its text may still be, such as copies of the database; nobody removes it there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetAllReply:
    """Confirms that a namespace is erased; what is saved while it is being erased may stay.

    The last three fields have the same meaning as in `ForgetReply`.
    """

    namespace: str
    entries: int
    """How many entries it had, in whatever state."""
    dry_run: bool = False
    """Whether they were only counted."""
    backups: int = 0
    backups_until: str | None = None
    remains: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteReply:
    """Confirms that nothing deleted is left in the database's files and in automatic backups."""

    remains: list[str]
    """Places where deleted data may still be, such as copies of the database; nobody removes it there."""
    backup: str | None = None
    """The backup made afterwards; null if there are no automatic backups."""
    backups_removed: list[str] = field(default_factory=list)
    """The automatic backups that it replaced."""


@request_body
class OutcomeRequest:
    """Whether applying a learning worked."""

    success: bool


def _nulls_cleared(body: Any) -> Any:
    """Move the nulls of an edit's body to `clear`; a body of another shape is returned unchanged."""
    if not isinstance(body, dict) or not isinstance(body.get("clear"), list | None):
        return body
    named = body.get("clear") or []
    nulls = [name for name in get_args(EditableField) if name in body and body[name] is None]
    rest = {name: value for name, value in body.items() if name not in (*nulls, "clear")}
    return {**rest, "clear": [*named, *nulls]} if named or nulls else rest
