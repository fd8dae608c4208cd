"""What a save, an edit, a forget and an import write, decided without an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import pytest

from agentctx.errors import Forgotten, IdempotencyKeyReused, KeyTaken, NotFound, VersionConflict
from agentctx.storage import forgetting, quarantine, saving
from agentctx.storage.forgetting import Erase, FindExpired, FindRow, ForgetRequests, LiveRow, LockEntry
from agentctx.storage.quarantine import LockTrust, NoteHidden
from agentctx.storage.records import (
    FORGOTTEN_DIGEST,
    Change,
    Draft,
    Entry,
    EntryKey,
    IdempotencyKey,
    ImportOptions,
    SaveOutcome,
)
from agentctx.storage.saving import (
    ChangeInPlace,
    EarlierSave,
    FindLive,
    InsertVersion,
    LiveEntry,
)
from agentctx.storage.steps import Execute, Rows, Statement, Steps
from agentctx.storage.versions import SaveCommand
from agentctx_testing.drafts import START_MS, draft, keyless

T = TypeVar("T")
NOW = START_MS
COMMAND = SaveCommand(now=NOW)
REQUEST = IdempotencyKey(1000, "request", b"digest")


class Memory:
    """Live entries in memory; it follows steps, and records the statements that change something."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = {entry.id: entry for entry in entries}
        self.held: set[str] = set()
        self.forgotten: set[str] = set()
        self.requests: dict[str, EarlierSave] = {}
        self.done: list[Statement[Any]] = []

    def follow(self, steps: Steps[T]) -> T:
        try:
            statement = next(steps)
            while True:
                self.done.append(statement)
                statement = steps.send(self._answers[type(statement)](self, statement))
        except StopIteration as finished:
            result: T = finished.value
            return result

    def only(self, kind: type[T]) -> T:
        """Return the one statement of this kind that was executed."""
        (found,) = (each for each in self.done if isinstance(each, kind))
        return found

    def _find_live(self, wanted: FindLive) -> tuple[LiveEntry | None, EarlierSave | None]:
        if wanted.request and wanted.request.key in self.requests:
            return None, self.requests[wanted.request.key]
        for entry in self.entries.values():
            if wanted.by in (entry.id, EntryKey(entry.namespace, entry.collection, entry.key or "")):
                return LiveEntry(1, entry, entry.id in self.held), None
        return None, None

    def _find_row(self, wanted: FindRow) -> LiveRow | None:
        live, _ = self._find_live(FindLive(wanted.entry_id))
        return live.row if live and (live.entry.expires or NOW + 1) > wanted.now else None

    def _find_expired(self, wanted: FindExpired) -> list[LiveRow]:
        expired = [each for each in self.entries.values() if (each.expires or NOW + 1) <= wanted.now]
        return [LiveEntry(1, each, False).row for each in expired][: wanted.limit]

    def _rows(self, wanted: Rows) -> list[Any]:
        if wanted.sql == saving.STATE:
            return [(True, wanted.values[0] in self.held, False)]
        known = {saving.WAS_FORGOTTEN: self.forgotten, quarantine.IS_HELD: self.held}
        return [each for each in wanted.values[:1] if each in known.get(wanted.sql, ())]

    def _execute(self, wanted: Execute) -> int:
        if "INTO quarantine" in wanted.sql:
            self.held.update(wanted.values[-1])
        return 0

    def _insert(self, new: InsertVersion) -> SaveOutcome:
        is_held = new.entry_id in self.held
        return SaveOutcome(id=new.entry_id, version=new.version, change=new.change, quarantined=is_held)

    _answers: ClassVar[dict[type[Statement[Any]], Callable[[Memory, Any], Any]]] = {
        FindLive: _find_live,
        FindRow: _find_row,
        FindExpired: _find_expired,
        LockEntry: lambda *_: None,
        LockTrust: lambda *_: None,
        NoteHidden: lambda *_: None,
        InsertVersion: _insert,
        ChangeInPlace: lambda *_: (),
        ForgetRequests: lambda *_: None,
        Erase: lambda *_: 1,
        Rows: _rows,
        Execute: _execute,
    }


def entry(entry_id: str = "a", **changes: Any) -> Entry:
    """Return the live entry that `draft()` saves."""
    made = draft()
    values: dict[str, Any] = {
        name: getattr(made, name)
        for name in ("namespace", "collection", "key", "content", "attributes", "session", "agent", "origin")
    }
    values |= {"id": entry_id, "version": 3, "live": True, "trust": "agent", "principal": 1000}
    values |= {"created": 1, "updated": 1, "expires": None, "pending": False, "embedded": True}
    return Entry(**values | changes)


def test_a_save_without_a_key_reads_nothing() -> None:
    memory = Memory()
    saved = memory.follow(saving.save(COMMAND, keyless("text")))
    assert [type(each) for each in memory.done] == [InsertVersion]
    assert (saved.change, memory.only(InsertVersion).version) == (Change.CREATED, 1)


def test_another_text_under_a_key_is_the_next_version_with_the_least_trust() -> None:
    memory = Memory(entry(trust="external"))
    memory.follow(saving.save(COMMAND, draft("another text")))
    new = memory.only(InsertVersion)
    assert (new.version, new.change, new.before, new.is_carried) == (4, Change.VERSION, 1, False)
    assert new.draft.trust == "external"


def test_other_attributes_keep_the_chunks_and_what_is_pending() -> None:
    memory = Memory(entry(pending=True))
    saved = memory.follow(saving.save(COMMAND, draft(attributes={"tags": []})))
    assert memory.only(InsertVersion).is_carried
    assert saved.pending


def test_an_equal_save_writes_only_its_answer() -> None:
    memory = Memory(entry())
    saved = memory.follow(saving.save(replace(COMMAND, idempotency=REQUEST), draft()))
    assert saved.change is Change.NONE
    assert memory.only(Execute) == saving.remember(REQUEST, saved, NOW)
    assert not any(isinstance(each, InsertVersion | ChangeInPlace) for each in memory.done)


def test_a_renewed_end_changes_the_live_version() -> None:
    memory = Memory(entry(expires=NOW + 5, ttl=10, attributes={"category": "fact", "tags": ["ops"]}))
    saved = memory.follow(saving.save(COMMAND, draft(expires=NOW + 10, ttl=10)))
    assert (saved.change, saved.version) == (Change.IN_PLACE, 3)
    assert memory.only(ChangeInPlace).live.seq == 1


def test_a_repeated_request_gets_its_answer_and_another_one_an_error() -> None:
    memory = Memory()
    memory.requests["request"] = EarlierSave(b"digest", "a", 2, "version")
    command = replace(COMMAND, idempotency=REQUEST)
    saved = memory.follow(saving.save(command, draft()))
    assert (saved.id, saved.version, saved.change) == ("a", 2, Change.VERSION)
    memory.requests["request"] = EarlierSave(b"other", "a", 2, "version")
    with pytest.raises(IdempotencyKeyReused):
        memory.follow(saving.save(command, draft()))
    memory.requests["request"] = EarlierSave(FORGOTTEN_DIGEST, "a", 2, "version")
    with pytest.raises(Forgotten):
        memory.follow(saving.save(command, draft()))


def test_an_expired_entry_gives_way_to_a_new_one() -> None:
    memory = Memory(entry(expires=NOW))
    saved = memory.follow(saving.save(replace(COMMAND, if_version=0), draft()))
    assert saved.erased == ("a",)
    event = memory.only(Erase).event
    assert event is not None
    assert (event.kind, event.principal, event.detail) == ("expire", None, {"collection": "knowledge"})
    assert memory.only(InsertVersion).entry_id != "a"


def test_a_revision_may_not_take_the_key_of_another_entry() -> None:
    def moved(_: Entry, __: Draft | None) -> Draft:
        return draft("moved", key="taken")

    memory = Memory(entry(), entry("b", key="taken"))
    with pytest.raises(KeyTaken):
        memory.follow(saving.revise(COMMAND, "a", moved))
    del memory.entries["b"]
    memory.follow(saving.revise(COMMAND, "a", moved))
    with pytest.raises(VersionConflict):
        memory.follow(saving.revise(replace(COMMAND, if_version=2), "a", moved))
    with pytest.raises(NotFound):
        memory.follow(saving.revise(COMMAND, "b", moved))


def test_unknown_sources_have_the_lowest_trust_and_an_entry_is_no_source_of_itself() -> None:
    memory = Memory(entry())
    memory.follow(saving.save(COMMAND, draft("other", derived_from=("a",), trust="operator")))
    assert not any(isinstance(each, LockTrust) for each in memory.done)
    memory = Memory()
    memory.follow(saving.save(COMMAND, keyless("other", derived_from=("gone",), trust="operator")))
    assert memory.only(LockTrust).shared
    assert Rows(quarantine.TRUSTS, (["gone"], "default")) in memory.done
    assert memory.only(InsertVersion).draft.trust == "external"


@pytest.mark.parametrize("was_held", [True, False])
def test_in_quarantine_a_draft_has_no_chunks(was_held: bool) -> None:
    memory = Memory(entry())
    if was_held:
        memory.held.add("a")
    saved = memory.follow(saving.save(COMMAND, draft("other", flags=("order",), is_held=not was_held)))
    assert saved.quarantined
    assert ("a", ("order",)) in [each.values for each in memory.done if isinstance(each, Execute)]
    assert memory.only(InsertVersion).draft.spans == ()


def test_flags_of_an_entry_without_any_are_not_removed() -> None:
    memory = Memory(entry())
    memory.follow(saving.save(COMMAND, draft("other", flags=())))
    assert not any(isinstance(each, Execute) and "flags" in each.sql for each in memory.done)


def test_an_import_without_a_key_looks_only_for_its_id() -> None:
    memory = Memory(entry(expires=NOW))
    assert memory.follow(saving.import_entry(COMMAND, keyless("text"), imported())).erased == ("a",)
    assert [each.by for each in memory.done if isinstance(each, FindLive)] == ["a"]


def test_forgetting_is_recorded_here_or_by_the_caller() -> None:
    memory = Memory(entry())
    memory.follow(forgetting.delete("a", now=NOW, principal=7))
    event = memory.only(Erase).event
    assert event is not None
    assert (event.kind, event.principal, event.subject) == ("forget", 7, "a")
    memory.follow(forgetting.delete("a", now=NOW, is_audited=False))
    assert memory.done[-1] == Erase(LiveEntry(1, entry(), False).row, None, NOW)
    with pytest.raises(VersionConflict):
        memory.follow(forgetting.delete("a", now=NOW, if_version=2))
    with pytest.raises(NotFound):
        memory.follow(forgetting.delete("b", now=NOW))


def test_a_sweep_erases_what_has_expired() -> None:
    memory = Memory(entry("a", expires=NOW), entry("b", expires=NOW + 1))
    assert memory.follow(forgetting.sweep(now=NOW, forget_before=1, limit=10)) == ["a"]
    assert memory.only(ForgetRequests).before == 1


def imported(**changes: Any) -> ImportOptions:
    return ImportOptions("a", 5, 6)._replace(**changes)


def test_an_import_keeps_id_and_times_and_a_dry_run_changes_nothing() -> None:
    memory = Memory()
    assert memory.follow(
        saving.import_entry(COMMAND, draft(), imported(dry_run=True, is_held=True))
    ).quarantined
    assert {type(each) for each in memory.done} == {FindLive, Rows}
    memory.follow(saving.import_entry(COMMAND, draft(), imported()))
    new = memory.only(InsertVersion)
    assert (new.entry_id, new.times) == ("a", (5, 6, NOW))


def test_an_import_that_is_held_has_no_chunks_either_over_an_entry_that_was_not() -> None:
    memory = Memory(entry())
    saved = memory.follow(saving.import_entry(COMMAND, draft("newer"), imported(is_held=True)))
    assert (saved.quarantined, memory.only(InsertVersion).draft.spans) == (True, ())
    assert memory.only(InsertVersion).times == (1, 6, NOW)
    other = imported(entry_id="b")
    assert memory.follow(saving.import_entry(COMMAND, draft(), other)).id == "a", "it has the same key"


def test_what_was_forgotten_is_imported_only_on_request_or_if_it_is_back() -> None:
    memory = Memory()
    memory.forgotten.add("a")
    with pytest.raises(Forgotten):
        memory.follow(saving.import_entry(COMMAND, draft(), imported()))
    memory.follow(saving.import_entry(COMMAND, draft(), imported(include_forgotten=True)))
    memory.entries["a"] = entry()
    assert memory.follow(saving.import_entry(COMMAND, draft(), imported())).change is Change.NONE


def test_an_import_erases_the_expired_entries_that_it_replaces() -> None:
    memory = Memory(entry(expires=NOW, namespace="elsewhere"), entry("b", expires=NOW))
    assert memory.follow(saving.import_entry(COMMAND, draft(), imported())).erased == ("a", "b")
    same = Memory(entry(expires=NOW))
    assert same.follow(saving.import_entry(COMMAND, draft(), imported())).erased == ("a",)
