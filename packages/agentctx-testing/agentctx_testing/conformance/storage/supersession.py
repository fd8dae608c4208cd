"""What is superseded or resolved is in no answer unless it is asked for, while what superseded it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentctx.errors import AgentctxError, InvalidInput, NotFound, SupersessionRefused
from agentctx.storage.base import Storage
from agentctx.storage.records import Change, IdempotencyKey, ImportOptions, SaveOutcome
from agentctx.storage.supersession import SupersededState
from agentctx.storage.trust import NO_PROVENANCE, Source
from agentctx.wire import FileMark
from agentctx_testing.drafts import (
    ALL,
    ManualClock,
    assert_sound,
    draft,
    embed,
    found_by_words,
    save,
    serving_space,
    vector,
    with_turns,
)

EVERYTHING = replace(ALL, with_superseded=True)
KEYS = ("a", "b", "c")


class Chain:
    """Entries about otters under the keys a, b and c, of which each supersedes the one before."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.ids: dict[str, str] = {}
        self.space = 0

    async def add(self, name: str, /, **changes: Any) -> SaveOutcome:
        links = {each: changes.pop(each) for each in ("supersedes", "resolves") if each in changes}
        attributes = {"category": "fact", **changes.pop("attributes", {}), **links}
        saved = await save(
            self.storage, draft(f"otters {name}", **{"key": name, "attributes": attributes, **changes})
        )
        self.ids[name] = saved.id
        if saved.jobs:
            await embed(self.storage, saved, *[vector(1, len(self.ids) / 10)] * len(saved.jobs))
        return saved

    async def fill(self) -> None:
        self.space = (await serving_space(self.storage)).id
        await self.add("a")
        await self.add("b", supersedes=["a"])
        await self.add("c", supersedes=[self.ids["b"]])

    async def shown(self) -> list[str]:
        """Return the keys in every kind of answer, which must agree."""
        keys = {entry_id: key for key, entry_id in self.ids.items()}
        listed, _ = await self.storage.entries.list_entries(ALL, limit=50)
        near = await self.storage.search.by_vector(self.space, vector(1), ALL, 50)
        texts = await self.storage.search.resolve([each.chunk for each in near], ALL)
        counted = (await self.storage.entries.count_by_namespace()).get("default", 0)
        answers = [
            sorted(keys[each.id] for each in listed),
            sorted(keys[each] for each in await found_by_words(self.storage, "otters")),
            sorted(keys[each.entry.id] for each in texts.values()),
        ]
        assert answers[0] == answers[1] == answers[2]
        assert counted == len(answers[0])
        known = await self.storage.trust.provenance([each.id for each in listed])
        assert not any(each.superseded for each in known.values())
        return answers[0]

    async def superseded(self, key: str) -> SupersededState | None:
        known = await self.storage.trust.provenance([self.ids[key]])
        return known.get(self.ids[key], NO_PROVENANCE).superseded

    async def forget(self, key: str) -> None:
        await self.storage.entries.delete(self.ids[key])

    async def refused(self, name: str, kind: type[AgentctxError], **changes: Any) -> None:
        before = await self.storage.entries.count_by_namespace()
        with pytest.raises(kind):
            await self.add(name, **changes)
        assert await self.storage.entries.count_by_namespace() == before


class SupersessionConformance:
    @pytest.fixture
    async def chain(self, storage: Storage) -> Chain:
        made = Chain(storage)
        await made.fill()
        return made

    async def test_only_the_newest_is_in_answers(self, chain: Chain) -> None:
        assert await chain.shown() == ["c"]
        ids = chain.ids
        assert await chain.superseded("a") == SupersededState("superseded", (ids["b"], ids["c"]))
        assert await chain.superseded("b") == SupersededState("superseded", (ids["c"],))
        assert await chain.superseded("c") is None
        await assert_sound(chain.storage)

    async def test_all_are_found_when_asked_for(self, chain: Chain) -> None:
        ids = sorted(chain.ids.values())
        listed, _ = await chain.storage.entries.list_entries(EVERYTHING, limit=9)
        assert sorted(each.id for each in listed) == ids
        assert sorted(await found_by_words(chain.storage, "otters", EVERYTHING)) == ids
        near = await chain.storage.search.by_vector(chain.space, vector(1), EVERYTHING, 9)
        assert sorted(each.entry for each in near) == ids
        texts = await chain.storage.search.resolve([each.chunk for each in near], EVERYTHING)
        assert len(texts) == 3
        assert len(await chain.storage.search.resolve([each.chunk for each in near], ALL)) == 1

    async def test_the_nearest_are_complete_however_many_nearer_ones_are_superseded(
        self, chain: Chain
    ) -> None:
        for number in range(30):
            await chain.add(f"old {number}")
        await chain.add("new", supersedes=[f"old {number}" for number in range(30)])
        hits = await chain.storage.search.by_vector(chain.space, vector(1), ALL, 2)
        assert sorted(each.entry for each in hits) == sorted([chain.ids["c"], chain.ids["new"]])

    async def test_it_is_no_turn_of_a_conversation(self, chain: Chain) -> None:
        said = {"key": None, "collection": "observation", "session": "s"}
        turns = [await chain.add(f"turn {number}", **said) for number in range(4)]
        await chain.add("later", supersedes=[turns[1].id])
        (chunk,) = (job.chunk for job in turns[2].jobs)
        read = await with_turns(chain.storage, [chunk], ALL, chain.space)
        assert read.turns[chunk].keys() == {-1, 1}
        assert turns[1].jobs[0].chunk not in read.turns[chunk].values()

    async def test_forgetting_the_newest_brings_the_one_before_back(self, chain: Chain) -> None:
        await chain.forget("c")
        del chain.ids["c"]
        assert await chain.shown() == ["b"]

    async def test_what_stood_between_stays_superseded_when_it_is_forgotten(self, chain: Chain) -> None:
        await chain.forget("b")
        assert await chain.superseded("a") == SupersededState("superseded", (chain.ids["c"],))
        assert await chain.shown() == ["c"]
        await chain.forget("c")
        assert await chain.shown() == ["a"]

    async def test_expiry_of_the_newer_brings_the_older_back_before_it_is_swept(
        self, chain: Chain, clock: ManualClock
    ) -> None:
        await chain.add("d", supersedes=["c"], expires=clock.now + 10, ttl=10)
        assert await chain.shown() == ["d"]
        clock.now += 10
        assert await chain.shown() == ["c"]
        assert await chain.storage.entries.sweep() == 1
        assert await chain.shown() == ["c"]

    async def test_a_revoked_newer_hides_nothing_until_it_is_released(self, chain: Chain) -> None:
        await chain.add("d", supersedes=["c"], agent="bad")
        result = await chain.storage.trust.revoke(Source(agent="bad"), principal=0, dry_run=False)
        assert await found_by_words(chain.storage, "otters") == [chain.ids["c"]]
        assert await chain.superseded("c") is None
        assert result.revocation is not None
        await chain.storage.trust.undo_revocation(result.revocation)
        await chain.storage.trust.settle(embed=False)
        assert await found_by_words(chain.storage, "otters") == [chain.ids["d"]]

    async def test_a_chain_holds_past_what_is_withdrawn(self, chain: Chain) -> None:
        file = {"digest": "d", "size": 1, "modified": 1, "places": [[0, 1]]}
        await chain.add("d", supersedes=["c"], attributes={"file": file, "source": "/n.md"})
        await chain.add("e", supersedes=["d"])
        mark = FileMark(entries=[chain.ids["d"]], state="withdrawn", reason="gone")
        await chain.storage.trust.mark_files("default", [mark])
        assert await found_by_words(chain.storage, "otters") == [chain.ids["e"]]
        await chain.forget("e")
        assert await found_by_words(chain.storage, "otters") == [chain.ids["c"]]

    async def test_another_version_of_either_keeps_it(self, chain: Chain) -> None:
        saved = await save(chain.storage, draft("otters today", key="c", attributes={"category": "rule"}))
        await embed(chain.storage, saved)
        assert (saved.id, saved.change) == (chain.ids["c"], Change.VERSION)
        entry = await chain.storage.entries.get(saved.id)
        assert entry is not None
        assert entry.attributes == {"category": "rule", "supersedes": [chain.ids["b"]]}
        await save(chain.storage, draft("otters were here", key="a"))
        assert await chain.shown() == ["c"]

    async def test_an_edit_that_takes_the_link_out_brings_the_older_back(self, chain: Chain) -> None:
        revised = draft("otters c", key="c", attributes={"category": "fact"})
        await chain.storage.entries.revise(chain.ids["c"], lambda *_: revised, embed=True)
        assert await chain.shown() == ["b", "c"]

    async def test_a_save_over_an_entry_adds_to_what_it_supersedes(self, chain: Chain) -> None:
        await chain.add("d")
        saved = await chain.add("c", supersedes=["d"])
        assert saved.change is Change.ATTRIBUTES
        assert saved.closed == (chain.ids["d"],)
        assert await chain.shown() == ["c"]
        assert (await chain.add("c", supersedes=["d"])).change is Change.NONE
        assert (await chain.add("c")).change is Change.NONE

    async def test_what_resolves_says_so(self, chain: Chain) -> None:
        asked = await chain.add("question", key=None, collection="observation", session="s")
        await chain.add("answer", resolves=[asked.id.upper()])
        assert await chain.superseded("question") == SupersededState("resolved", (chain.ids["answer"],))
        assert await chain.shown() == ["answer", "c"]

    async def test_an_older_version_that_was_superseded_twice_needs_both_gone(self, chain: Chain) -> None:
        await chain.add("d", resolves=["b"])
        await chain.forget("c")
        assert await chain.superseded("b") == SupersededState("resolved", (chain.ids["d"],))

    async def test_the_key_of_its_own_collection_comes_first(self, chain: Chain) -> None:
        await chain.add("notes", collection="notes")
        twice = {"notes": chain.ids["notes"]}
        await chain.add("notes")
        await chain.refused("new", InvalidInput, supersedes=["notes"], collection="learning")
        await chain.add("new", supersedes=["notes"])
        known = await chain.storage.trust.provenance([chain.ids["notes"], *twice.values()])
        assert list(known) == [chain.ids["notes"]]

    async def test_unknown_and_foreign_entries_are_refused_alike(
        self, chain: Chain, clock: ManualClock
    ) -> None:
        there = await save(chain.storage, draft("secret", namespace="other"))
        await chain.add("brief", expires=clock.now + 1, ttl=1)
        clock.now += 1
        for name in (there.id, "deploy", "brief", chain.ids["brief"], "nothing", "B"):
            await chain.refused("x", NotFound, supersedes=["a", name])
        messages = []
        for name in (there.id, there.id[:-1] + ("0" if there.id[-1] != "0" else "1")):
            with pytest.raises(NotFound) as refused:
                await chain.add("x", supersedes=[name])
            messages.append(refused.value.message.replace(name, ""))
        assert messages[0] == messages[1]
        assert await chain.superseded("a") == SupersededState("superseded", (chain.ids["b"], chain.ids["c"]))

    async def test_what_has_a_higher_trust_cannot_be_superseded(self, chain: Chain) -> None:
        page = {"trust": "external", "origin": "document"}
        await chain.refused("page", SupersessionRefused, supersedes=["c"], **page)
        await chain.add("page", **page)
        await chain.add("other page", supersedes=["page"], **page)
        assert await chain.shown() == ["c", "other page"]
        await chain.add("rule", supersedes=["other page"], trust="operator")
        await chain.refused("x", SupersessionRefused, resolves=["rule"])

    async def test_what_loses_its_trust_hides_nothing_of_a_higher(self, chain: Chain) -> None:
        await chain.add("c", trust="external", origin="document", attributes={"tags": ["page"]})
        assert await chain.shown() == ["b", "c"]

    async def test_circles_are_refused(self, chain: Chain) -> None:
        for name in ("a", "b", "c"):
            await chain.refused("a", SupersessionRefused, supersedes=[name])
        with pytest.raises(SupersessionRefused):
            await chain.storage.entries.revise(
                chain.ids["a"],
                lambda *_: draft("otters a", key="a", attributes={"resolves": ["c"]}),
                embed=True,
            )
        assert await chain.shown() == ["c"]

    async def test_a_retry_gets_the_same_answer(self, chain: Chain) -> None:
        newer = draft("otters d", key="d", attributes={"supersedes": ["c"]})
        request = IdempotencyKey(1000, "request", b"digest")
        first = await chain.storage.entries.save(newer, embed=True, idempotency=request)
        await chain.forget("c")
        again = await chain.storage.entries.save(newer, embed=True, idempotency=request)
        assert (again.id, again.version, again.change) == (first.id, first.version, first.change)

    async def test_an_import_keeps_links_in_any_order_and_closes_no_circle(self, chain: Chain) -> None:
        entries = [await chain.storage.entries.get(chain.ids[key]) for key in KEYS]
        for key in KEYS:
            await chain.forget(key)
        for entry in reversed(entries):
            assert entry is not None
            made = draft(entry.content, key=entry.key, attributes=entry.attributes)
            wanted = ImportOptions(entry.id, entry.created, entry.updated, include_forgotten=True)
            await chain.storage.entries.import_entry(made, wanted, embed=False)
        assert await found_by_words(chain.storage, "otters") == [chain.ids["c"]]
        circle = draft("otters a", key="a", attributes={"supersedes": [chain.ids["c"], chain.ids["a"], "c"]})
        wanted = ImportOptions(chain.ids["a"], 1, 2_000_000_000_000, include_forgotten=True)
        await chain.storage.entries.import_entry(circle, wanted, embed=False)
        assert await found_by_words(chain.storage, "otters") == [chain.ids["c"]]
