"""Random histories of a memory, compared step by step with a simple model of what a version is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from agentctx.cli.export_format import entry_line, read_entry
from agentctx.cli.undo import decide
from agentctx.daemon.build import Core
from agentctx.errors import AgentctxError, VersionConflict
from agentctx.service.earlier_version import fields_to_restore
from agentctx.times import format_time
from agentctx.wire import (
    EditRequest,
    EntryView,
    ExportedEntry,
    ImportRequest,
    OutcomeRequest,
    RevokeRequest,
    SearchRequest,
)
from agentctx_testing.drafts import ManualClock
from tests.running_core import ME, save

SEED: Final = 20261128
STEPS: Final = 14
KEYS: Final = ("tea", "milk")
TEXTS: Final = ("Tea is green.", "Tea is black.", "Tea is white.")
AGENTS: Final = ("ann", "bob")
TTLS: Final = (None, None, "300d", "400d")
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class State:
    """One version in the model."""

    content: str
    tags: tuple[str, ...]
    category: str
    ttl: str | None
    agent: str
    at: int
    expires: int | None = None


@dataclass
class ExpectedEntry:
    """One entry in the model."""

    id: str
    created: int
    versions: list[State]
    held: bool = False

    @property
    def live(self) -> State:
        return self.versions[-1]

    def follow(self, state: State, *, is_save: bool = False) -> bool:
        """Add a version unless it equals the live one; return whether it does not."""
        asked = replace(state, at=0, agent="", expires=None)
        if asked == replace(self.live, at=0, agent="", expires=None):
            self.versions[-1] = replace(self.live, expires=state.expires)
            return False
        assert is_save or state.agent == self.live.agent
        self.versions.append(state)
        return True


@dataclass
class History:
    """A memory with its model, in a namespace of its own; `there` is another machine."""

    core: Core
    there: Core
    clock: ManualClock
    dice: Random
    namespace: str
    entries: dict[str, ExpectedEntry] = field(default_factory=dict)
    copies: dict[str, tuple[State, bool]] = field(default_factory=dict)
    """What the other machine has, by key: the state and whether it is in quarantine."""
    done: list[object] = field(default_factory=list)

    async def run(self) -> None:
        steps: Mapping[str, Callable[[], Any]] = {
            "save": self.save,
            "edit": self.edit,
            "undo": self.undo,
            "revoke": self.revoke,
            "release": self.release,
            "forget": self.forget,
            "move": self.move,
        }
        weights = (6, 6, 2, 1, 1, 1, 2)
        for name in self.dice.choices(list(steps), weights, k=STEPS):
            self.clock.now += self.dice.choice((1, 1_000))
            self.done.append(name)
            await steps[name]()
            if self.dice.random() < 0.3:
                await self.compare()
        await self.compare()
        await self.compare_histories()

    def _state(self, agent: str) -> State:
        dice = self.dice
        tags = tuple(sorted(dice.sample(("a", "b"), dice.randrange(3))))
        category = dice.choice(("fact", "rule"))
        ttl = dice.choice(TTLS)
        expires = self.clock.now + int(ttl[:-1]) * DAY_MS if ttl else None
        return State(dice.choice(TEXTS), tags, category, ttl, agent, self.clock.now, expires)

    def _known(self) -> ExpectedEntry | None:
        return self.dice.choice(list(self.entries.values())) if self.entries else None

    async def save(self) -> None:
        key, state = self.dice.choice(KEYS), self._state(self.dice.choice(AGENTS))
        self.done.append((key, state))
        result = await save(
            self.core,
            namespace=self.namespace,
            key=key,
            content=state.content,
            tags=list(state.tags),
            category=state.category,
            ttl=state.ttl,
            agent=state.agent,
            session=f"of {state.agent}",
        )
        if key not in self.entries:
            self.entries[key] = ExpectedEntry(result.id, self.clock.now, [state])
        else:
            self.entries[key].follow(state, is_save=True)

    async def edit(self) -> None:
        if (known := self._known()) is None:
            return
        changes, live = self._state(""), known.live
        name = self.dice.choice(("content", "tags", "category", "ttl"))
        value = getattr(changes, name)
        self.done.append((known.id, name, value))
        clears = name == "ttl" and value is None
        request = EditRequest(
            **({"clear": ["ttl"]} if clears else {name: list(value) if name == "tags" else value}),
            if_version=len(known.versions),
        )
        result = await self.core.entries.edit(known.id, request, ME)
        expires = changes.expires if name == "ttl" else live.expires
        changed = known.follow(replace(live, **{name: value, "at": self.clock.now, "expires": expires}))
        assert result.version == len(known.versions)
        if changed:
            stale = replace(request, if_version=result.version - 1)
            try:
                await self.core.entries.edit(known.id, stale, ME)
            except VersionConflict:
                return
            raise AssertionError("a stale edit was accepted")

    async def undo(self) -> None:
        since = self.clock.now - self.dice.choice((0, 1, 500, 1_500, 3_000, 10_000))
        self.done.append(since)
        for each in await self._exported():
            if each.entry.updated < format_time(since):
                continue
            step = decide(each, format_time(since))
            if step.action == "forget":
                await self.core.forgetting.forget(step.id, ME, if_version=step.version)
            elif step.action == "revert":
                earlier = next(version for version in each.versions if version.version == step.to_version)
                fields = fields_to_restore(each.entry, earlier, now=self.clock.now)
                request = EditRequest(**{**fields, "if_version": step.version})  # type: ignore[arg-type] # names of fields
                await self.core.entries.edit(step.id, request, ME)
        for key, known in list(self.entries.items()):
            if known.created >= since:
                del self.entries[key]
            elif known.live.at >= since:
                then = [state for state in known.versions if state.at < since][-1]
                live, ttl, expires = known.live, None, None
                if then.expires and live.expires and abs(then.expires - live.expires) < 2_000:
                    ttl, expires = live.ttl, live.expires
                elif then.expires:
                    remaining_s = (then.expires - self.clock.now) // 1_000
                    ttl, expires = f"{remaining_s}s", self.clock.now + remaining_s * 1_000
                restored = replace(then, agent=live.agent, at=self.clock.now, ttl=ttl, expires=expires)
                known.follow(restored)

    async def revoke(self) -> None:
        agent = self.dice.choice(AGENTS)
        self.done.append(agent)
        await self.core.revocations.revoke(RevokeRequest(namespace=self.namespace, agent=agent), ME)
        for known in self.entries.values():
            known.held |= any(
                state.agent == agent and state.content == known.live.content for state in known.versions
            )
        if self.dice.random() < 0.7:
            await self.core.release_worker.settle()

    async def release(self) -> None:
        if (known := self._known()) is None or not known.held:
            return
        await self.core.revocations.release(known.id, ME)
        known.held = False
        await self.core.release_worker.settle()

    async def forget(self) -> None:
        if known := self._known():
            await self.core.forgetting.forget(known.id, ME)
            self.entries = {key: each for key, each in self.entries.items() if each is not known}

    async def move(self) -> None:
        """Export, and import on the other machine, where what is newer wins."""
        for each in await self._exported():
            versions = read_entry(entry_line(each))
            for result in await self.there.transfer.import_entries(ImportRequest(entries=versions), ME):
                assert not isinstance(result, AgentctxError), result
        for key, known in self.entries.items():
            for state in known.versions:
                copy, held = self.copies.get(key, (None, False))
                is_newer = copy is None or state.at > copy.at
                if copy is None or (is_newer and _shown(state) != _shown(copy)):
                    self.copies[key] = (state, held or known.held)
                elif state.content == copy.content:
                    self.copies[key] = (copy, held or known.held)

    async def _exported(self) -> list[ExportedEntry]:
        reply = await self.core.transfer.export(ME, namespace=[self.namespace], history=True)
        return list(reply.entries)

    async def compare(self) -> None:
        views = await self._walk(self.core)
        assert views.keys() == self.entries.keys()
        for key, known in self.entries.items():
            view = views[key]
            assert (view.id, view.version) == (known.id, len(known.versions))
            assert _of(view) == (*_shown(known.live), known.live.agent)
            assert (view.quarantined is not None) == known.held
        question = SearchRequest(query="tea", namespace=self.namespace, collections=["knowledge"])
        found = {each.id for each in (await self.core.questions.search(question, ME)).results}
        assert found == {known.id for known in self.entries.values() if not known.held}
        copies = await self._walk(self.there)
        assert {key: (_of(view)[:3], view.quarantined is not None) for key, view in copies.items()} == {
            key: (_shown(state), held) for key, (state, held) in self.copies.items()
        }

    async def compare_histories(self) -> None:
        for known in self.entries.values():
            page = await self.core.entries.versions(known.id, ME, limit=100)
            stored = [_of(version) for version in reversed(page.versions)]
            assert stored == [(*_shown(state), state.agent) for state in known.versions]

    async def _walk(self, core: Core) -> dict[str, EntryView]:
        """Return all entries, read one a page."""
        found: dict[str, EntryView] = {}
        cursor = None
        while True:
            page = await core.entries.list_entries(ME, namespace=self.namespace, limit=1, cursor=cursor)
            for entry in page.entries:
                assert str(entry.key) not in found, "shown twice"
                found[str(entry.key)] = entry
            if (cursor := page.next) is None:
                return found


def _shown(state: State) -> tuple[object, ...]:
    return state.content, state.tags, state.category


def _of(view: EntryView) -> tuple[object, ...]:
    return view.content, tuple(view.attributes["tags"]), view.attributes["category"], view.agent


async def learn(core: Core, clock: ManualClock, dice: Random, namespace: str) -> None:
    """Repeat a learning, count outcomes and edit it: only the edits move its version."""
    versions, occurrences = 0, 0
    for _ in range(8):
        clock.now += 5
        what = dice.choice(("again", "again", "outcome", "edit")) if versions else "again"
        if what == "again":
            tag = dice.choice("abc")
            result = await save(core, "learning", namespace=namespace, trigger="t", fix="f", tags=[tag])
            versions, occurrences = max(versions, 1), occurrences + 1
        elif what == "outcome":
            result = await core.entries.outcome(result.id, OutcomeRequest(success=True), ME)
        else:
            category = dice.choice(("timeout", "permission"))
            result = await core.entries.edit(result.id, EditRequest(category=category), ME)
            versions += result.changed
        view = await core.entries.get(result.id, ME)
        assert (view.version, view.attributes["occurrences"]) == (versions, occurrences)


async def run(core: Core, there: Core, clock: ManualClock, first: int, count: int) -> None:
    """Run histories. Raises `AssertionError` with the number and the steps of the first that fails."""
    for number in range(first, first + count):
        dice = Random(SEED + number)
        history = History(core, there, clock, dice, f"h{number}")
        try:
            await history.run()
            await learn(core, clock, dice, f"l{number}")
        except AssertionError as error:
            raise AssertionError(f"history {number}: {history.done}") from error
    for memory in (core, there):
        assert (await memory.storage.upkeep.census()).violations == 0
