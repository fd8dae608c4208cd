"""Which entries are hidden follows from the links and from what stands, whatever happened in which order."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.errors import NotFound, SupersessionRefused
from agentctx.storage import supersession
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.wire import FileMark
from agentctx_testing.drafts import ALL, ManualClock, draft, keyless

KEYS = "abcdef"
Act: TypeAlias = tuple[Literal["save", "forget", "withdraw", "return"], str, tuple[str, ...]]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "save", "forget", "withdraw", "return"]),
        st.sampled_from(KEYS),
        st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple),
    ),
    max_size=14,
)


class Expected:
    """The links and states of entries by key, kept in the simplest way."""

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.withdrawn: set[str] = set()
        self.links: set[tuple[str, str]] = set()

    def later(self, key: str) -> set[str]:
        found: set[str] = set()
        waiting = {key}
        while waiting:
            waiting = {newer for older, newer in self.links if older in waiting} - found
            found |= waiting
        return found

    def save(self, key: str, names: tuple[str, ...]) -> bool:
        """Return whether the save is accepted."""
        if not self.live >= set(names) or {key, *self.later(key)} & set(names):
            return False
        self.live.add(key)
        self.links |= {(name, key) for name in names}
        return True

    def forget(self, key: str) -> None:
        self.live.discard(key)
        self.withdrawn.discard(key)
        after = {newer for older, newer in self.links if older == key}
        before = {older for older, newer in self.links if newer == key}
        self.links |= {(older, newer) for older in before for newer in after}
        self.links = {pair for pair in self.links if key not in pair}

    def shown(self) -> set[str]:
        standing = self.live - self.withdrawn
        return {key for key in standing if not self.later(key) & standing}


async def perform(storage: SqliteStorage, expected: Expected, act: Act) -> None:
    what, key, names = act
    entry = await storage.entries.find("default", "knowledge", key)
    if what == "save":
        attributes = {"supersedes": list(names), "file": {"places": [[0, 1]]}}
        is_accepted = False
        with suppress(NotFound, SupersessionRefused):
            await storage.entries.save(draft(f"otters {key}", key=key, attributes=attributes), embed=False)
            is_accepted = True
        assert is_accepted == expected.save(key, names)
    elif entry is None:
        return
    elif what == "forget":
        await storage.entries.delete(entry.id)
        expected.forget(key)
    else:
        state: Literal["withdrawn", "present"] = "withdrawn" if what == "withdraw" else "present"
        await storage.trust.mark_files("default", [FileMark(entries=[entry.id], state=state, reason="x")])
        await storage.trust.settle(embed=False)
        (expected.withdrawn.add if what == "withdraw" else expected.withdrawn.discard)(key)


async def replay(folder: Path, acts: list[Act]) -> None:
    storage = await SqliteStorage.open(folder / "agentctx.db", clock=ManualClock())
    try:
        expected = Expected()
        for act in acts:
            await perform(storage, expected, act)
            listed, _ = await storage.entries.list_entries(ALL, limit=50)
            assert {entry.key for entry in listed} == expected.shown(), acts
    finally:
        await storage.close()


@settings(max_examples=25, deadline=None)
@given(ACTS)
def test_any_history_hides_what_something_later_stands_for(acts: list[Act]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(replay(Path(folder), acts))


LINKS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["superseded", "resolved"]))


@given(LINKS)
def test_links_survive_the_way_through_attributes(links: supersession.Links) -> None:
    linked = supersession.with_links(keyless("x", attributes={"tags": ["t"], "resolves": ["gone"]}), links)
    assert supersession.links_of(linked.attributes) == links
    assert linked.attributes["tags"] == ["t"]
    assert all(linked.attributes.get(field, ["x"]) for field in supersession.FIELDS), "no list is empty"
