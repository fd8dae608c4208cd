"""A state machine of what clients and operators can do, checked against a dictionary of expected entries."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from structlog.testing import capture_logs

from agentctx import wire
from agentctx.errors import Forgotten, NotFound, VersionConflict
from tests.durability.model_expected import Expected, Known
from tests.durability.model_memories import CoreMemory, Memory

NAMESPACES = ("default", "other")
KEYS = ("deploy", "tea")
TAGS = ("ops", "kitchen", "style")
HOUR_MS = 3_600_000
MOST_RESULTS = 100
_FILLER = "the kettle has to be descaled on the first Monday of every month "

picks = st.integers(0, 10_000)


class MemoryMachine(RuleBasedStateMachine):
    """`make`, set by a subclass, opens a memory in a folder. A failure is an AssertionError."""

    make: ClassVar[Callable[[Path], Memory]]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="durability-model-")
        self.place = Path(self._folder.name)
        self._quiet = capture_logs()
        self._quiet.__enter__()
        self.memory: Memory = type(self).make(self.place)
        self.expected = Expected()
        self.serial = 0
        self.last: tuple[wire.SaveRequest, str, wire.SaveResult] | None = None
        self.backed_up: Expected | None = None

    def teardown(self) -> None:
        try:
            self.memory.end()
        finally:
            self._quiet.__exit__(None, None, None)
            self._folder.cleanup()

    # Saving

    @initialize()
    def begin(self) -> None:
        assert self.memory.listed("default") == []

    @rule(namespace=st.sampled_from(NAMESPACES), is_long=st.booleans(), expires=st.booleans())
    def save_note(self, namespace: str, is_long: bool, expires: bool) -> None:
        ttl = "1h" if expires and self.memory.steers else None
        content = self._text() + (_FILLER * 30 if is_long else "")
        request = wire.SaveRequest(
            collection="observation", session="s", namespace=namespace, content=content, ttl=ttl
        )
        self._created(request, self._save(request))

    @rule(
        namespace=st.sampled_from(NAMESPACES),
        key=st.sampled_from(KEYS),
        same=st.booleans(),
        tags=st.lists(st.sampled_from(TAGS), unique=True, max_size=2),
        expires=st.booleans(),
    )
    def save_keyed(self, namespace: str, key: str, same: bool, tags: list[str], expires: bool) -> None:
        """Save a new entry, equal content again, other tags, or another text."""
        ttl = "1h" if expires and self.memory.steers else None
        until = self.memory.now() + HOUR_MS if ttl else None
        found = self.expected.keyed(namespace, key, self.memory.now())
        content = found.contents[-1] if found and same else self._text()
        request = wire.SaveRequest(
            collection="knowledge",
            namespace=namespace,
            key=key,
            category="fact",
            content=content,
            tags=tags,
            ttl=ttl,
        )
        result = self._save(request)
        if found is None:
            self._created(request, result)
            return
        is_other = content != found.contents[-1] or tags != found.tags or until != found.expires
        assert result.id == found.id, "a key that is saved again keeps its id"
        assert result.changed == is_other, f"changed is {result.changed}"
        self._became(found, content, tags, is_other=(until is None) != (found.expires is None))
        found.expires = until
        assert result.version == found.version

    @precondition(lambda self: self.last is not None)
    @rule()
    def retry_the_last_save(self) -> None:
        """Repeat a save as after a lost answer: the same key gives the same answer and no new entry; if the
        entry was forgotten, it stays so.
        """
        assert self.last is not None
        request, key, before = self.last
        try:
            again = self.memory.save(request, key)
        except Forgotten:
            assert before.id not in self._live_ids(), "a live entry is taken for a forgotten one"
            return
        assert before.id not in self.expected.gone, "what was forgotten is saved again"
        assert (again.id, again.version) == (before.id, before.version), "saved twice"

    # Changing

    @rule(pick=picks, same=st.booleans())
    def edit_content(self, pick: int, same: bool) -> None:
        if (known := self._some(pick)) is None:
            return
        content = known.contents[-1] if same else self._text()
        result = self.memory.edit(known.id, wire.EditRequest(content=content, if_version=known.version))
        assert result.changed != same
        self._became(known, content, known.tags)
        assert result.version == known.version

    @rule(pick=picks, tags=st.lists(st.sampled_from(TAGS), unique=True, min_size=1, max_size=2))
    def edit_tags(self, pick: int, tags: list[str]) -> None:
        if (known := self._some(pick)) is None:
            return
        result = self.memory.edit(known.id, wire.EditRequest(tags=tags))
        assert result.changed == (tags != known.tags)
        self._became(known, known.contents[-1], tags)
        assert result.version == known.version

    @rule(pick=picks)
    def edit_what_somebody_else_changed(self, pick: int) -> None:
        if (known := self._some(pick)) is None:
            return
        stale = wire.EditRequest(content=self._text(), if_version=known.version + 1)
        try:
            self.memory.edit(known.id, stale)
        except VersionConflict:
            return
        raise AssertionError("an edit of another version was accepted")

    @rule(pick=picks)
    def forget(self, pick: int) -> None:
        if (known := self._some(pick)) is None:
            return
        assert self.memory.forget(known.id) == known.version
        self.expected.drop(known)

    @rule(pick=picks)
    def ask_for_what_is_gone(self, pick: int) -> None:
        gone = [*self.expected.gone, *(known.id for known in self._expired())]
        if not gone:
            return
        entry_id = gone[pick % len(gone)]
        for ask in (self.memory.get, self.memory.forget, self.memory.history):
            try:
                ask(entry_id)
            except NotFound:
                continue
            raise AssertionError(f"{entry_id} is there after it was forgotten")

    # Reading

    @rule(pick=picks)
    def read_history(self, pick: int) -> None:
        if (known := self._some(pick)) is None:
            return
        versions = self.memory.history(known.id)
        assert [view.content for view in versions] == known.contents[::-1]
        assert [view.live for view in versions] == [True] + [False] * (known.version - 1)
        times = [view.updated for view in versions]
        assert times == sorted(set(times), reverse=True), "versions are not in the order of their times"
        assert versions[0].created <= times[-1], "it was changed before it was made"

    @rule(pick=picks)
    def search_by_words(self, pick: int) -> None:
        """Check that acknowledged entries are found by a word that no other entry has."""
        if (known := self._some(pick)) is None:
            return
        hits = self._hits(known.contents[-1].split()[0], known.namespace)
        assert known.id in {hit.id for hit in hits}, "an acknowledged text is not found by words"

    @rule(pick=picks)
    def search_for_what_is_gone(self, pick: int) -> None:
        texts = [*self.expected.gone.values()]
        texts += [
            text
            for known in self.expected.entries.values()
            for text in known.contents
            if text != known.contents[-1]
        ]
        if texts:
            word = texts[pick % len(texts)].split()[0]
            for namespace in NAMESPACES:
                found = [hit.id for hit in self._hits(word, namespace) if word in hit.content]
                assert not found, f"{found} is found by a text that is gone"

    @rule(pick=picks)
    def search_by_meaning_when_nothing_is_owed(self, pick: int) -> None:
        self.settle()
        if (known := self._some(pick)) is None or self.memory.queue().buried:
            return
        request = wire.SearchRequest(
            query=known.contents[-1][:200],
            namespace=known.namespace,
            collections=[known.collection],
            limit=MOST_RESULTS,
        )
        reply = self.memory.search(request)
        if reply.degraded is None:
            distances = [hit.distance for hit in reply.results if hit.id == known.id]
            assert distances, "an embedded text is not found"
            assert None not in distances, "an embedded text has no distance"

    # Operating

    @rule()
    def settle(self) -> None:
        wrong = self.memory.settle()
        assert not wrong, wrong[0]

    @rule()
    def retry_buried(self) -> None:
        assert self.memory.retry_buried() == 0, "something was buried"

    @rule()
    def restart(self) -> None:
        self.memory.restart()

    @rule(during_save=st.booleans())
    def crash(self, during_save: bool) -> None:
        """Crash, perhaps during a save, which is then sent again."""
        request = wire.SaveRequest(collection="observation", session="s", content=self._text())
        key = f"crash {self.serial}".replace(" ", "-")
        self.memory.crash(request if during_save else None, key)
        if during_save:
            self._created(request, self._remembered(request, key))

    @rule()
    def back_up(self) -> None:
        file = self.place / f"backup-{self.serial}.db"
        self.serial += 1
        self.memory.backup(file)
        self.backed_up, self.backup_file = copy.deepcopy(self.expected), file

    @precondition(lambda self: self.backed_up is not None)
    @rule()
    def restore(self) -> None:
        """Restore a backup: the memory is as it was, without what was saved since."""
        assert self.backed_up is not None
        self.memory.restore(self.backup_file)
        since = self.expected
        self.expected, self.last = copy.deepcopy(self.backed_up), None
        for known in since.entries.values():
            if known.id not in self.expected.entries:
                self.expected.gone[known.id] = known.contents[-1]

    # Operations of the core only

    @precondition(lambda self: self.memory.steers)
    @rule(on=st.booleans())
    def the_provider_fails_or_works(self, on: bool) -> None:
        self._core.fail(on=on)

    @precondition(lambda self: self.memory.steers)
    @rule(minutes=st.sampled_from([1, 50, 600, 3_000]))
    def time_passes(self, minutes: int) -> None:
        self._core.clock.now += minutes * 60_000
        self.last = None if minutes > 60 else self.last

    @precondition(lambda self: self.memory.steers)
    @rule(minutes=st.sampled_from([1, 50, 600]))
    def the_clock_is_put_back(self, minutes: int) -> None:
        """Move the clock back: entries that expired but were not removed reappear; nothing else changes."""
        self._core.clock.now -= minutes * 60_000

    @precondition(lambda self: self.memory.steers)
    @rule(hours=st.sampled_from([0, 1, -1, 9_000, -9_000]))
    def move(self, hours: int) -> None:
        """Import an export into an empty memory on a machine with a different clock."""
        wrong = self._core.move(skew_ms=hours * HOUR_MS)
        assert not wrong, wrong[0]

    @precondition(lambda self: self.memory.steers)
    @rule()
    def sweep(self) -> None:
        self._core.sweep()
        for known in self._expired():
            self.expected.drop(known)

    @precondition(lambda self: self.memory.steers)
    @rule(model=st.sampled_from(["bag-of-words", "another"]))
    def another_model(self, model: str) -> None:
        self._core.model = model
        self.memory.restart()

    @precondition(lambda self: self.memory.steers)
    @rule(model=st.sampled_from([None, "the next one"]))
    def another_model_beside(self, model: str | None) -> None:
        self._core.next_model = model
        self.memory.restart()

    @precondition(lambda self: self.memory.steers)
    @rule()
    def switch_and_roll_back(self) -> None:
        """Switch to the next model once its space is complete, and switch back."""
        self.settle()
        if self._core.reembed("switch"):
            assert self._core.reembed("rollback"), "the former model was not kept"

    @precondition(lambda self: self.memory.steers)
    @rule(action=st.sampled_from(["switch", "rollback", "retire"]))
    def change_the_model_that_answers(self, action: wire.ReembedAction) -> None:
        self._core.reembed(action)

    # Invariants

    @invariant()
    def the_memory_is_what_the_dictionary_says(self) -> None:
        type(self).steps += 1
        problems = self.memory.problems()
        assert not problems, problems[0]
        for namespace in NAMESPACES:
            there = {
                view.id: (view.version, view.content, _tags(view)) for view in self.memory.listed(namespace)
            }
            expected = {
                known.id: (known.version, known.contents[-1], known.tags)
                for known in self.expected.live(self.memory.now(), namespace)
            }
            lost, extra = expected.keys() - there.keys(), there.keys() - expected.keys()
            assert not lost, f"lost: {sorted(lost)}"
            assert not extra, f"nobody saved {sorted(extra)}, or they were forgotten"
            other = [entry_id for entry_id in expected if expected[entry_id] != there[entry_id]]
            assert not other, f"{there[other[0]]} is stored, {expected[other[0]]} was acknowledged"

    @property
    def _core(self) -> CoreMemory:
        assert isinstance(self.memory, CoreMemory)
        return self.memory

    def _save(self, request: wire.SaveRequest) -> wire.SaveResult:
        return self._remembered(request, f"key-{self.serial}")

    def _remembered(self, request: wire.SaveRequest, key: str) -> wire.SaveResult:
        self.serial += 1
        result = self.memory.save(request, key)
        self.last = (request, key, result)
        return result

    def _created(self, request: wire.SaveRequest, result: wire.SaveResult) -> None:
        assert result.changed
        assert result.version == 1
        assert result.id not in self.expected.entries
        expires = self.memory.now() + HOUR_MS if request.ttl else None
        for known in self._expired():
            if known.key is not None and (known.namespace, known.key) == (request.namespace, request.key):
                self.expected.drop(known)
        self.expected.entries[result.id] = Known(
            id=result.id,
            collection=request.collection,
            namespace=request.namespace,
            key=request.key,
            contents=[str(request.content)],
            tags=list(request.tags or []),
            expires=expires,
        )

    def _became(self, known: Known, content: str, tags: list[str], *, is_other: bool = False) -> None:
        if content != known.contents[-1] or tags != known.tags or is_other:
            known.contents.append(content)
        known.tags = tags

    def _live_ids(self) -> set[str]:
        return {known.id for known in self.expected.live(self.memory.now())}

    def _expired(self) -> list[Known]:
        now = self.memory.now()
        return [known for known in self.expected.entries.values() if not known.is_live(now)]

    def _some(self, pick: int) -> Known | None:
        live = self.expected.live(self.memory.now())
        return live[pick % len(live)] if live else None

    def _hits(self, query: str, namespace: str) -> list[wire.Passage]:
        """The results of a search; each must match the entry's current state."""
        request = wire.SearchRequest(query=query, namespace=namespace, limit=MOST_RESULTS)
        hits = self.memory.search(request).results
        live = {known.id: known for known in self.expected.live(self.memory.now(), namespace)}
        for hit in hits:
            assert hit.id in live, f"{hit.id} is found, and is gone or of another namespace"
            known = live[hit.id]
            assert hit.version == known.version, "an old version is found"
            assert hit.content == known.contents[-1][hit.start : hit.end], "an old text is found"
        return hits

    def _text(self) -> str:
        """Return the first word of a text, which no other text contains."""
        self.serial += 1
        word = "z" + "".join("abcdefghij"[int(digit)] for digit in f"{self.serial:04}") + "q"
        return f"{word} was seen by the harbor, number {self.serial}. "


def _tags(view: wire.EntryView) -> list[str]:
    return list(view.attributes.get("tags", []))
