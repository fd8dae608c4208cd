"""The base of all stores: validate, redact, chunk and save an entry, then notify the embed callback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, TypeAlias, TypeVar

import structlog

from agentctx.config.schema import CollectionSettings, LimitSettings
from agentctx.errors import InvalidInput, SecretRefused, StorageCorrupt, UnknownCollection
from agentctx.names import is_namespace, normalised
from agentctx.service.stores.collection_rules import BUILT_IN, CUSTOM, CollectionRules, FieldValues
from agentctx.service.stores.drafts import (
    counted,
    header,
    known_fields,
    labels,
    merging,
    revised_draft,
    screened,
    screened_revision,
    vouched,
    without_cleared,
)
from agentctx.service.stores.fields import ContextFields, check, is_plain_name, validated
from agentctx.service.stores.learning import applied, repetition
from agentctx.service.stores.recurrence import save_learning
from agentctx.service.stores.redaction import redact_fields, redact_name
from agentctx.storage.base import Storage
from agentctx.storage.records import (
    Change,
    Draft,
    Entry,
    IdempotencyKey,
    ImportOptions,
    Job,
    Revision,
    SaveOutcome,
)
from agentctx.storage.search import Filter
from agentctx.storage.versions import unknown_entry
from agentctx.text.chunking.entry import CHUNKING_VERSION, chunk_entry
from agentctx.text.redaction.redactor import Redactor, no_redaction
from agentctx.text.screening.screener import Screener, no_screening
from agentctx.times import Clock, parse_duration
from agentctx.wire import DEFAULT_NAMESPACE, Origin, RememberMode

T = TypeVar("T")
log = structlog.get_logger("agentctx.stores")

EmbedCallback: TypeAlias = Callable[[Sequence[Job]], None]
"""Called with the new jobs after the commit of every save that changed something.

The jobs are empty if the text did not change, or while no space is open: opening one adds jobs for all
entries. It must not block. Its exceptions are logged and fail no save, because the jobs are in the table.
"""

INLINE_CHARS = 4_000
"""Below this length, redacting and chunking inline is faster than switching to a thread."""

_TRUSTED: frozenset[Origin] = frozenset({"user", "agent"})
"""Origins of trust `agent`; the others are `external`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveContext:
    """Where an entry is saved, by whom, and under which conditions."""

    namespace: str = DEFAULT_NAMESPACE
    session: str | None = None
    agent: str | None = None
    origin: Origin = "agent"
    principal: int = field(default_factory=os.getuid)
    """The kernel's uid of the caller."""
    ttl: str | None = None
    if_version: int | None = None
    idempotency: IdempotencyKey | None = None
    remember: RememberMode | None = None
    """What a hook was set to; None means `auto` for what is captured."""
    derived_from: tuple[str, ...] = ()
    """Ids of the entries from which this one was made."""


class EntryStore:
    """Saves, edits, reads and deletes entries of all collections, `declared` ones too.

    With `on_saved=None` nothing is embedded and no jobs are written.
    """

    built_in: ClassVar[Sequence[str]] = tuple(BUILT_IN)
    """The built-in collections of the store."""

    def __init__(
        self,
        storage: Storage,
        on_saved: EmbedCallback | None = None,
        *,
        clock: Clock,
        limits: LimitSettings | None = None,
        redactor: Redactor = no_redaction,
        screener: Screener = no_screening,
        declared: Mapping[str, CollectionSettings] | None = None,
    ) -> None:
        declared = declared or {}
        self._entries = storage.entries
        self._rules = {name: BUILT_IN[name] for name in self.built_in} | dict.fromkeys(declared, CUSTOM)
        self.collections = tuple(self._rules)
        self._on_saved = on_saved
        self._clock = clock
        self._limits = limits or LimitSettings()
        self._redactor = redactor
        self._screener = screener
        self._ttls = {name: settings.ttl for name, settings in declared.items() if settings.ttl}

    def check_collection(self, name: str) -> None:
        """Raise `UnknownCollection`, listing the known ones, unless the collection exists."""
        if name not in self._rules:
            raise UnknownCollection(
                f"Collection {name[:64]!r} does not exist.",
                hint=f"Known are {', '.join(self._rules)}; [collections.NAME] in the config declares more.",
            )

    async def save_fields(
        self, collection: str, values: Mapping[str, Any], context: SaveContext
    ) -> SaveOutcome:
        """Save `values` as an entry of `collection`.

        Raises:
            UnknownCollection: the error lists the known ones.
            InvalidInput: a field is missing, unknown, of the wrong type or over its limit.
            SecretRefused: the values contain secrets, and the redactor refuses them.
            VersionConflict, IdempotencyKeyReused, StorageFull, StorageFailed.
        """
        self.check_collection(collection)
        rules, what = self._rules[collection], f"This {collection} cannot be saved"
        self._check_context(collection, rules, context)
        checked = check(rules.model, values, self._limits, what=what)
        checked = await self._under_its_key(context.namespace, collection, checked)
        draft, redacted = await _run(partial(self._draft, collection, checked, context, what), _size(checked))
        save: Callable[..., Awaitable[SaveOutcome]] = self._entries.save
        if collection == "learning":
            revision = screened_revision(merging(repetition(self._limits)), self._screener)
            save = partial(save_learning, self._entries, revision=revision)
        saved = await save(
            draft,
            embed=self._on_saved is not None,
            if_version=context.if_version,
            idempotency=context.idempotency.unreadable() if context.idempotency else None,
        )
        self._emit(saved)
        noted = redacted or draft.flags
        return replace(saved, redacted=redacted, flags=draft.flags or ()) if noted else saved

    async def edit(
        self,
        entry_id: str,
        changes: Mapping[str, Any],
        *,
        clear: Sequence[str] = (),
        if_version: int | None = None,
        ttl: str | None = None,
        principal: int | None = None,
    ) -> SaveOutcome:
        """Change some fields of an entry and remove those in `clear`; the others stay.

        Raises:
            NotFound, VersionConflict, InvalidInput, SecretRefused.
        """
        if both := [name for name in clear if name in changes or (name == "ttl" and ttl)]:
            raise InvalidInput(f"This edit both sets and clears {both[0]}.", hint="Do one of them.")
        redacted, kinds = await self._redact(changes, "This edit is not possible")
        given_ttl, expires = self._lifetime(ttl)

        def revision(entry: Entry, _: Draft | None) -> Draft:
            rules = self._rules[entry.collection]
            values = {**known_fields(rules, entry, self._limits), **redacted}
            if "content" in redacted:
                # The recorded positions belong to the file's text, which this edit replaces.
                values.pop("file", None)
            what = f"This edit of {entry.collection} is not possible"
            values = without_cleared(rules, values, [name for name in clear if name != "ttl"], what=what)
            checked = check(rules.model, values, self._limits, what=what)
            kept = (None, None) if "ttl" in clear else (entry.expires, entry.ttl)
            ends, lasts = (expires, given_ttl) if ttl else kept
            draft = revised_draft(entry, rules, checked, expires=ends, ttl=lasts)
            # The editor becomes the principal, so that quotas and revocations cover the new text.
            return draft if principal is None else replace(draft, principal=principal)

        flags: list[tuple[str, ...]] = []
        screen = screened_revision(revision, self._screener, flags)
        saved = await self.revise(entry_id, screen, if_version=if_version, principal=principal)
        return replace(saved, redacted=kinds, flags=flags[-1] if flags else ())

    async def import_entry(
        self,
        entry: Entry,
        options: ImportOptions,
        *,
        principal: int,
        last: Entry | None = None,
        derived_from: tuple[str, ...] = (),
    ) -> SaveOutcome:
        """Save an exported version under its own id, with its own times.

        The origin becomes `import`, whatever the export says. The caller decides the trust of `entry`.
        A key that follows from the text is that of `last`, the version that was live, in all versions.

        Raises:
            Forgotten: the id was forgotten, and `options.include_forgotten` is false.
            InvalidInput: a field is missing, unknown or malformed, or the id belongs to another entry.
            SecretRefused: the entry contains secrets, and the redactor refuses them.
            UnknownCollection, StorageFull, StorageFailed.
        """
        rules, what = self._rules[entry.collection], f"This {entry.collection} cannot be imported"
        where = SaveContext(
            namespace=entry.namespace, session=entry.session or None, agent=entry.agent or None
        )
        self._check_context(entry.collection, rules, where)
        values, of_fields = await self._imported_fields(rules, entry, what)
        of_last, _ = await self._imported_fields(rules, last, what) if rules.counts and last else (values, ())
        where, of_names = self._redact_context(where, what)
        ours = replace(
            entry,
            session=where.session or "",
            agent=where.agent or "",
            origin="import",
            principal=principal,
            attributes=counted(rules, entry),
        )
        draft = await asyncio.to_thread(revised_draft, ours, rules, values, expires=entry.expires)
        draft = replace(draft, key=rules.key(of_last), derived_from=derived_from)
        draft = await _run(partial(screened, draft, self._screener), len(draft.content))
        saved = await self._entries.import_entry(draft, options, embed=self._on_saved is not None)
        if not options.dry_run:
            self._emit(saved)
        return replace(saved, redacted=_distinct(of_fields, of_names), flags=draft.flags or ())

    async def revise(
        self,
        entry_id: str,
        revision: Revision,
        *,
        if_version: int | None = None,
        principal: int | None = None,
    ) -> SaveOutcome:
        """Save what `revision` makes of an entry, and notify the embed callback."""
        saved = await self._entries.revise(
            entry_id,
            revision,
            embed=self._on_saved is not None,
            if_version=if_version,
            principal=principal,
        )
        self._emit(saved)
        return saved

    async def record_outcome(
        self, entry_id: str, *, success: bool, principal: int | None = None
    ) -> SaveOutcome:
        """Record whether applying a learning worked, and update its confidence.

        Raises:
            NotFound: the learning does not exist.
        """
        if (await self.get(entry_id)).collection != "learning":
            raise unknown_entry(entry_id)
        revision = merging(applied(self._limits, success=success))
        return await self.revise(entry_id, revision, principal=principal)

    async def get(self, entry_id: str, version: int | None = None) -> Entry:
        """Return the live version, or the given one. Raises `NotFound`."""
        entry = await self._entries.get(entry_id, version)
        if entry is None or entry.collection not in self._rules:
            raise unknown_entry(entry_id, version)
        return entry

    async def history(
        self, entry_id: str, *, limit: int = 50, before: int | None = None
    ) -> tuple[list[Entry], int | None]:
        """Return a page of versions, newest first, and the `before` of the next page. Raises `NotFound`."""
        await self.get(entry_id)
        return await self._entries.history(entry_id, limit=limit, before=before)

    async def list_entries(
        self, listed: Filter, *, limit: int = 50, before: str | None = None, with_content: bool = True
    ) -> tuple[list[Entry], str | None]:
        """Return a page of live entries, newest first, and the cursor of the next page.

        Entries in quarantine are included. Names are redacted like those of saved entries.
        """
        session, agent, key = (
            redact_name(name, self._redactor)[0] for name in (listed.session, listed.agent, listed.key)
        )
        collections = listed.collections or self.collections
        listed = replace(listed, collections=collections, session=session, agent=agent, with_quarantined=True)
        page = partial(self._entries.list_entries, limit=limit, before=before, with_content=with_content)
        if key != listed.key and (found := await page(listed))[0]:  # a file, or saved by an older version
            return found
        return await page(replace(listed, key=key))

    async def delete(
        self, entry_id: str, *, if_version: int | None = None, principal: int | None = None
    ) -> int:
        """Delete an entry and everything that depends on it; return how many versions it had."""
        with suppress(StorageCorrupt):  # a damaged entry can be deleted too
            await self.get(entry_id)
        return await self._entries.delete(entry_id, if_version=if_version, principal=principal)

    async def _under_its_key(
        self, namespace: str, collection: str, checked: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields with the key as it is stored. Keys of files and old keys stay as they are."""
        given = checked.get("key")
        if given is None or "file" in checked or (key := normalised(given)) == given:
            return checked
        is_old = await self._entries.find(namespace, collection, given) is not None
        return checked if is_old else {**checked, "key": key}

    def _check_context(self, collection: str, rules: CollectionRules, context: SaveContext) -> None:
        is_plain = is_plain_name(context.session) and is_plain_name(context.agent)
        if not (is_plain and is_namespace(context.namespace)):
            where = {"namespace": context.namespace, "session": context.session, "agent": context.agent}
            validated(ContextFields, where, self._limits, what=f"This {collection} cannot be saved")
        if rules.needs_session and context.session is None:
            raise InvalidInput(f"An entry of {collection} needs a session.", hint="Name the session.")

    async def _imported_fields(
        self, rules: CollectionRules, entry: Entry, what: str
    ) -> tuple[FieldValues, tuple[str, ...]]:
        known = check(rules.model, known_fields(rules, entry, self._limits), self._limits, what=what)
        known = await self._under_its_key(entry.namespace, entry.collection, known)
        values, redacted = await self._redact(known, what)
        return (check(rules.model, values, self._limits, what=what) if redacted else values), redacted

    async def _redact(self, values: Mapping[str, Any], what: str) -> tuple[dict[str, Any], tuple[str, ...]]:
        return await _run(partial(redact_fields, values, self._redactor, what=what), _size(values))

    def _redact_context(self, context: SaveContext, what: str) -> tuple[SaveContext, tuple[str, ...]]:
        # A namespace decides who shares the entry: redaction would break that.
        if found := self._redactor.of_name(context.namespace).findings:
            raise SecretRefused(
                f"{what}: its namespace contains {found[0].kind}", hint="Choose another namespace."
            )
        session, of_session = redact_name(context.session, self._redactor)
        agent, of_agent = redact_name(context.agent, self._redactor)
        if (session, agent) != (context.session, context.agent):
            context = replace(context, session=session, agent=agent)
        return context, _distinct(of_session, of_agent)

    def _draft(
        self, collection: str, checked: FieldValues, context: SaveContext, what: str
    ) -> tuple[Draft, tuple[str, ...]]:
        """Return the draft of a save, screened, and the kinds of secrets that were redacted."""
        rules = self._rules[collection]
        values, of_fields = redact_fields(checked, self._redactor, what=what)
        if of_fields:  # what replaces a secret can be longer
            values = check(rules.model, values, self._limits, what=what)
        context, of_names = self._redact_context(context, what)
        content = rules.content(values)
        ttl, expires = self._lifetime(context.ttl or self._ttls.get(collection))
        draft = Draft(
            namespace=context.namespace,
            collection=collection,
            content=content,
            spans=tuple(chunk_entry(content, source=values.get("source"))),
            chunking=CHUNKING_VERSION,
            attributes=rules.attributes(values),
            labels=labels(values, context.agent or ""),
            header=header(rules, values, context.agent or "", self._clock()),
            key=rules.key(values),
            session=context.session or "",
            agent=context.agent or "",
            origin=context.origin,
            trust="agent" if context.origin in _TRUSTED else "external",
            principal=context.principal,
            expires=expires,
            ttl=ttl,
            derived_from=context.derived_from,
            flags=(),
            remember=context.remember or ("auto" if context.origin == "capture" else None),
        )
        return vouched(screened(draft, self._screener)), _distinct(of_fields, of_names)

    def _lifetime(self, ttl: str | None) -> tuple[int | None, int | None]:
        """Return the milliseconds of a duration, and when it is over from now."""
        if not ttl:
            return None, None
        lasting = parse_duration(ttl)
        return lasting, self._clock() + lasting

    def _emit(self, saved: SaveOutcome) -> None:
        if self._on_saved is None or saved.change is Change.NONE:
            return
        try:
            self._on_saved(saved.jobs)
        except Exception as error:  # noqa: BLE001 - the entry is saved, whatever a callback does
            log.error("embed_callback_failed", entry=saved.id, error=type(error).__name__)  # noqa: TRY400 - it may hold text


def _size(values: FieldValues) -> int:
    return sum([len(value) for value in values.values() if isinstance(value, str)])


def _distinct(*kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(kinds)))


async def _run(work: Callable[[], T], chars: int) -> T:
    """Do work on a text of this length, in a thread if it is long."""
    return work() if chars <= INLINE_CHARS else await asyncio.to_thread(work)
