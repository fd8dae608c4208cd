"""The keyword arguments of the clients' methods: the wire's optional fields, typed for editors and mypy.

Times are RFC 3339 strings or ages like `7d`; `ttl` is a number with a unit s, m, h, d or w (`30d`).
"""

from __future__ import annotations

from typing import Literal, TypedDict

from agentctx import wire
from agentctx.wire import (
    ActionKind,
    EditableField,
    InjectionPosition,
    Order,
    Origin,
    RememberMode,
    Trust,
    TurnPart,
)


class SaveOptions(TypedDict, total=False):
    """The options of every save. `wait="embedded"` returns once the entry can be found by meaning.

    `derived_from` lists the entries it was made from, by id; its trust is the lowest of its own and theirs.
    `supersedes` and `resolves` list, by id or key, the entries of its namespace that answers leave out from
    now on.
    """

    namespace: str
    agent: str | None
    origin: Origin
    ttl: str | None
    if_version: int | None
    wait: Literal["embedded"] | None
    derived_from: list[str] | None
    remember: RememberMode | None
    supersedes: list[str] | None
    resolves: list[str] | None


class NoteOptions(SaveOptions, total=False):
    """`SaveOptions`, plus the options of an observation."""

    tags: list[str] | None
    cues: list[str] | None
    source: str | None


class ReflectionOptions(NoteOptions, total=False):
    """`NoteOptions`, plus the generation: 2 means a conclusion from reflections, and so on."""

    generation: int | None


class KnowledgeOptions(NoteOptions, total=False):
    """`NoteOptions`, plus the category: rule, definition, preference, fact, pattern or correction."""

    category: str


class LearningOptions(NoteOptions, total=False):
    """`NoteOptions`, plus why it happened and what helped.

    `category` is tool_error, provider_error, user_correction, timeout, permission or general.
    """

    error_pattern: str | None
    diagnosis: str | None
    fix: str | None
    category: str | None


class SaveFields(ReflectionOptions, LearningOptions, total=False):
    """Every field of a save but collection and content; the daemon checks which ones a collection accepts."""

    session: str | None
    key: str | None
    file: wire.FileRecord | None
    token_count: int | None
    source_start_index: int | None
    source_end_index: int | None
    turn: str | None
    part: TurnPart | None
    own_words: bool | None
    trigger: str | None


class ByKey(TypedDict, total=False):
    """An entry named by its key: in this namespace, by default the client's, and in this collection, if
    several have the key.
    """

    key: str | None
    namespace: str | None
    collection: str | None


class EditFields(TypedDict, total=False):
    """The editable fields of an entry; omitted or None fields stay. `clear` names the fields to remove."""

    content: str | None
    category: str | None
    tags: list[str] | None
    cues: list[str] | None
    source: str | None
    supersedes: list[str] | None
    resolves: list[str] | None
    trigger: str | None
    error_pattern: str | None
    diagnosis: str | None
    fix: str | None
    ttl: str | None
    if_version: int | None
    wait: Literal["embedded"] | None
    clear: list[EditableField] | None


class EntryFilter(TypedDict, total=False):
    """Which entries to consider; `limit` is the maximum number of results, or the size of a page.

    What others supersede or resolve is left out unless `include_superseded`.
    """

    namespace: str
    collections: list[str] | None
    session: str | None
    agent: str | None
    category: str | None
    tags: list[str] | None
    since: str | None
    until: str | None
    limit: int | None
    include_superseded: bool | None


class QuestionFilter(EntryFilter, total=False):
    """`EntryFilter`, with `namespaces` to ask several instead of one."""

    namespaces: list[str] | None


class SearchOptions(QuestionFilter, total=False):
    """`QuestionFilter`, plus the ranking options; `max_distance` is a cosine distance, 0 to 2."""

    order: Order
    max_distance: float | None


class ContextOptions(SearchOptions, total=False):
    """`SearchOptions`, plus the block's token limit, its placement, and what the conversation already holds.

    `all` also includes passages that are not relevant enough for an LLM call. `conversation` leaves out
    passages already injected into that conversation, unless it `restarted`; with an empty query, `decided`
    lists what it decided. With `action`, the query is a command or a path, in an absolute `folder`; with
    `error`, the command has failed.
    """

    budget_tokens: int | None
    position: InjectionPosition | None
    all: bool | None
    present: list[str] | None
    conversation: str | None
    restarted: bool | None
    action: ActionKind | None
    folder: str | None
    error: str | None
    decided: bool | None


class ListOptions(EntryFilter, total=False):
    """Filters of a list. `cursor` is the `next` of the previous page; `content=False` omits the texts.

    `withdrawn` adds entries whose file is gone or says something else; `marked` lists only these and the ones
    whose file could not be seen. `waiting` lists only what waits for a review, `derived_from` only what was
    made from the entry with this id.
    """

    key: str | None
    key_prefix: str | None
    withdrawn: bool
    marked: bool
    waiting: bool | None
    derived_from: str | None
    content: bool
    cursor: str | None


class RevokeOptions(TypedDict, total=False):
    """The source to revoke: entries that match every option. `source` is a file or a folder and all in it."""

    namespace: str | None
    agent: str | None
    session: str | None
    principal: int | None
    origin: Origin | None
    trust: Trust | None
    source: str | None
    since: str | None
    until: str | None
    dry_run: bool
    forget: bool


class ExportOptions(TypedDict, total=False):
    """Which entries to export and which parts of them; without namespaces and collections, all."""

    namespaces: list[str]
    collections: list[str]
    since: str | None
    history: bool
    vectors: bool
    limit: int
    cursor: str | None
