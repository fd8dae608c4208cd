"""The keyword arguments of the clients' methods: the wire's optional fields, typed for editors and mypy.

Times are RFC 3339 strings or ages like `7d`; `ttl` is a number and s, m, h, d or w (`30d`).
"""

from __future__ import annotations

from typing import Literal, TypedDict

from agentctx.wire import EditableField, FileRecord, InjectionPosition, Order, Origin, Trust


class SaveOptions(TypedDict, total=False):
    """What every save may say. `wait="embedded"` answers when the entry can be found by meaning.

    `derived_from` are the ids of the entries it was made of: it has the least trust of all.
    """

    namespace: str
    agent: str | None
    origin: Origin
    ttl: str | None
    if_version: int | None
    wait: Literal["embedded"] | None
    derived_from: list[str] | None


class NoteOptions(SaveOptions, total=False):
    """The same, and what an observation may have."""

    tags: list[str] | None
    cues: list[str] | None
    source: str | None


class ReflectionOptions(NoteOptions, total=False):
    """The same, and its generation: 2 concludes from reflections, and so on."""

    generation: int | None


class KnowledgeOptions(NoteOptions, total=False):
    """The same, and rule, definition, preference, fact, pattern or correction."""

    category: str


class LearningOptions(NoteOptions, total=False):
    """The same, and why it happened and what helped.

    `category` is tool_error, provider_error, user_correction, timeout, permission or general.
    """

    error_pattern: str | None
    diagnosis: str | None
    fix: str | None
    category: str | None


class SaveFields(ReflectionOptions, LearningOptions, total=False):
    """Every field of a save but collection and content; which of them a collection takes, the daemon says."""

    session: str | None
    key: str | None
    file: FileRecord | None
    token_count: int | None
    source_start_index: int | None
    source_end_index: int | None
    trigger: str | None


class EditFields(TypedDict, total=False):
    """What can be changed in an entry; fields left out, or None, stay. `clear` names those to take away."""

    content: str | None
    category: str | None
    tags: list[str] | None
    cues: list[str] | None
    source: str | None
    trigger: str | None
    error_pattern: str | None
    diagnosis: str | None
    fix: str | None
    ttl: str | None
    if_version: int | None
    wait: Literal["embedded"] | None
    clear: list[EditableField] | None


class EntryFilter(TypedDict, total=False):
    """Which entries are looked at, and how many; `limit` is the most results, or the size of a page."""

    namespace: str
    collections: list[str] | None
    session: str | None
    agent: str | None
    category: str | None
    tags: list[str] | None
    since: str | None
    until: str | None
    limit: int | None


class QuestionFilter(EntryFilter, total=False):
    """The same; `namespaces` asks several instead of one."""

    namespaces: list[str] | None


class SearchOptions(QuestionFilter, total=False):
    """The same, and what comes first; `max_distance` is a cosine distance, 0 to 2."""

    order: Order
    max_distance: float | None


class ContextOptions(SearchOptions, total=False):
    """The same, and the most tokens of the block, where it goes, and what the conversation already holds.

    `all` also takes passages that are not relevant enough for an LLM call. `conversation` leaves out what
    was injected there before, unless it `restarted`.
    """

    budget_tokens: int | None
    position: InjectionPosition | None
    all: bool | None
    present: list[str] | None
    conversation: str | None
    restarted: bool | None


class ListOptions(EntryFilter, total=False):
    """What narrows a list. `cursor` is the `next` of the page before; `content=False` leaves texts out."""

    key: str | None
    key_prefix: str | None
    content: bool
    cursor: str | None


class RevokeOptions(TypedDict, total=False):
    """Which source: entries that meet all that is named. `source` is a file, or a folder and all in it."""

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
    """Which entries, and what of them; without namespaces and collections, all."""

    namespaces: list[str]
    collections: list[str]
    since: str | None
    history: bool
    vectors: bool
    limit: int
    cursor: str | None
