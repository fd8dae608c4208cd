from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from agentctx import wire
from agentctx_inspector.filters import MAX_LISTED, Filters, best, grouped, in_parts, newest


def view(entry_id: str, **fields: Any) -> wire.EntryView:
    given: dict[str, Any] = {
        **dict.fromkeys(("key", "session", "agent", "expires")),
        "version": 1,
        "live": True,
        "namespace": "default",
        "collection": "observation",
        "content": "text",
        "attributes": {},
        "origin": "agent",
        "trust": "agent",
        "principal": 1,
        "embedding": "done",
        "created": "2026-11-29T08:00:00.000Z",
        "updated": "2026-11-29T08:00:00.000Z",
        "id": entry_id,
    }
    return wire.EntryView(**{**given, **fields})


def passage(entry_id: str, relevance: float, start: int = 0) -> wire.Passage:
    return wire.Passage(
        namespace="n",
        collection="observation",
        id=entry_id,
        source_id=entry_id,
        version=1,
        content="text",
        distance=None,
        relevance=relevance,
        start=start,
        end=1,
        session=None,
        agent=None,
        origin="agent",
        trust="agent",
        created="",
        updated="",
        attributes={},
    )


def filters(address: str) -> Filters:
    return Filters.of(QueryParams(address))


def test_an_address_says_what_is_shown_and_is_written_the_same() -> None:
    address = "q=when&namespace=team&tag=a%26b&state=all&by=agent"
    assert filters(address).address() == f"/?{address}"
    assert filters("").address() == "/"


def test_what_an_address_cannot_mean_is_left_out() -> None:
    assert filters("by=<script>&state=no&unknown=1&q=+") == Filters()


def test_another_filter_begins_at_the_first_page() -> None:
    assert filters("before=ID&by=session").address(agent="planner") == "/?agent=planner&by=session"
    assert filters("before=ID").address(before="OTHER") == "/?before=OTHER"
    assert filters("agent=planner&tag=x").without("agent") == "/?tag=x"


def test_the_filters_become_the_options_of_both_calls() -> None:
    given = filters("collection=learning&tag=x&since=7d&state=marked&before=ID")
    listed = given.list_options("team")
    assert listed["collections"] == ["learning"]
    assert listed["tags"] == ["x"]
    assert (listed["marked"], listed["withdrawn"], listed["cursor"]) == (True, False, "ID")
    assert given.search_options(["a", "b"], 5)["namespaces"] == ["a", "b"]
    assert filters("state=all").search_options(["a"], 5)["include_superseded"] is True


def test_namespaces_are_merged_by_time() -> None:
    pages = [
        wire.EntryPage(entries=[view("5"), view("2")], next=None),
        wire.EntryPage(entries=[view("4"), view("3")], next=None),
    ]
    entries, after = newest(pages)
    assert [each.id for each in entries] == ["5", "4", "3", "2"]
    assert after == ""


def test_no_page_overtakes_a_namespace_that_has_more() -> None:
    pages = [
        wire.EntryPage(entries=[view("9"), view("7")], next="7"),
        wire.EntryPage(entries=[view("8"), view("1")], next=None),
    ]
    entries, after = newest(pages)
    assert [each.id for each in entries] == ["9", "8", "7"]
    assert after == "7"


def test_a_page_has_an_end() -> None:
    many = [view(f"{number:03}") for number in range(MAX_LISTED, 0, -1)]
    more = [view(f"{number:03}x") for number in range(MAX_LISTED, 0, -1)]
    entries, after = newest(
        [wire.EntryPage(entries=many, next=None), wire.EntryPage(entries=more, next=None)]
    )
    assert len(entries) == MAX_LISTED
    assert after == entries[-1].id


def test_a_memory_is_found_once_with_its_best_passage() -> None:
    replies = [
        wire.SearchReply(results=[passage("a", 0.9), passage("b", 0.2)], degraded=None),
        wire.SearchReply(results=[passage("b", 0.7, start=5), passage("c", 0.5)], degraded=None),
    ]
    assert [(each.id, each.relevance) for each in best(replies, 2)] == [("a", 0.9), ("b", 0.7)]


def test_a_timeline_keeps_the_order_and_its_headings_lead_to_the_rest() -> None:
    entries = [view("3", agent="b"), view("2"), view("1", agent="b")]
    groups = grouped(entries, filters("by=agent"))
    assert [(each.heading, each.address, len(each.entries)) for each in groups] == [
        ("b", "/?agent=b", 2),
        ("Without an agent", "", 1),
    ]
    (group,) = grouped(entries, filters("by=project"))
    assert (group.heading, group.address) == ("default", "/?namespace=default")
    (group,) = grouped(entries, filters(""))
    assert (group.address, len(group.entries)) == ("", 3)


def test_namespaces_are_asked_in_parts() -> None:
    assert in_parts(["a", "b", "c"], 2) == [["a", "b"], ["c"]]
