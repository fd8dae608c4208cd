"""What the address of the list of memories says: a question, filters, and the kind of timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Literal, Protocol, TypeVar, cast, get_args

from starlette.datastructures import QueryParams

from agentctx import wire
from agentctx.names import readable
from agentctx_inspector.rendering import day, query

Timeline = Literal["day", "session", "project", "agent"]
State = Literal["", "all", "marked"]
MAX_LISTED: Final = 50
"""Number of namespaces that a list without one covers, the largest; and of memories on a page."""
_TEXTS: Final = ("namespace", "collection", "agent", "session", "category", "tag", "since", "until")


class TimelineItem(Protocol):
    """A memory, or a passage of one."""

    @property
    def id(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def session(self) -> str | None: ...

    @property
    def agent(self) -> str | None: ...

    @property
    def created(self) -> str: ...


D = TypeVar("D", bound=TimelineItem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The parameters of the address; empty ones do not filter."""

    q: str = ""
    namespace: str = ""
    collection: str = ""
    agent: str = ""
    session: str = ""
    category: str = ""
    tag: str = ""
    since: str = ""
    until: str = ""
    state: State = ""
    """`all`: also what is superseded or withdrawn; `marked`: only what its file does not say any more."""
    by: Timeline = "day"
    before: str = ""
    """The id after which the page begins."""

    @classmethod
    def of(cls, given: QueryParams) -> Filters:
        """Return the filters of an address; what they do not know is left out."""
        texts = {name: given.get(name, "").strip() for name in ("q", "before", *_TEXTS)}
        state, by = given.get("state", ""), given.get("by", "day")
        return cls(
            **texts,
            state=cast("State", state) if state in get_args(State) else "",
            by=cast("Timeline", by) if by in get_args(Timeline) else "day",
        )

    @property
    def chosen(self) -> dict[str, str]:
        """The filters that are set, without the question."""
        chosen = {name: str(getattr(self, name)) for name in (*_TEXTS, "state")}
        return {name: value for name, value in chosen.items() if value}

    def address(self, **changed: str) -> str:
        """Return the address of these filters with changes, from the first page on."""
        other = replace(self, **{"before": "", **changed})  # type: ignore[arg-type] # literals are checked in `of`
        by = {} if other.by == "day" else {"by": other.by}
        return f"/{query({'q': other.q, **other.chosen, **by, 'before': other.before})}"

    def without(self, name: str) -> str:
        """Return the address without one of the filters."""
        return self.address(**{name: ""})

    def list_options(self, namespace: str) -> dict[str, Any]:
        """Return the options of `calls.list_entries`."""
        return {
            **self._shared(),
            "namespace": namespace,
            "withdrawn": self.state == "all",
            "marked": self.state == "marked",
            "limit": MAX_LISTED,
            "cursor": self.before or None,
        }

    def search_options(self, namespaces: Sequence[str], limit: int) -> dict[str, Any]:
        """Return the options of `calls.search`."""
        return {**self._shared(), "namespaces": list(namespaces), "limit": limit}

    def _shared(self) -> dict[str, Any]:
        return {
            "collections": [self.collection] if self.collection else None,
            "session": self.session or None,
            "agent": self.agent or None,
            "category": self.category or None,
            "tags": [self.tag] if self.tag else None,
            "since": self.since or None,
            "until": self.until or None,
            "include_superseded": self.state == "all" or None,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Memories below one heading; `address` lists all of them, empty if the heading is a day."""

    heading: str
    address: str
    entries: list[Any]


def newest(pages: Sequence[wire.EntryPage]) -> tuple[list[wire.EntryView], str]:
    """Merge the pages of several namespaces, newest first; also return where the next page begins."""
    entries = sorted(
        (entry for page in pages for entry in page.entries), key=lambda each: each.id, reverse=True
    )
    # A namespace whose page is full may have more after its last entry, which others must not overtake.
    floor = max((page.entries[-1].id for page in pages if page.next and page.entries), default="")
    shown = list(islice((each for each in entries if each.id >= floor), MAX_LISTED))
    is_last = len(shown) == len(entries) and not floor
    return shown, "" if is_last or not shown else shown[-1].id


def best(replies: Sequence[wire.SearchReply], limit: int) -> list[wire.Passage]:
    """Merge answers, most relevant first, with the best passage of each memory only."""
    passages = sorted((each for reply in replies for each in reply.results), key=lambda each: -each.relevance)
    by_memory: dict[str, wire.Passage] = {}
    for each in passages:
        by_memory.setdefault(each.id, each)
    return list(by_memory.values())[:limit]


def grouped(entries: Sequence[D], filters: Filters) -> list[Group]:
    """Group what is on a page, in the order of the first of each group."""
    heading: dict[Timeline, Callable[[D], str]] = {
        "day": lambda each: each.created[:10],
        "session": lambda each: each.session or "",
        "project": lambda each: each.namespace,
        "agent": lambda each: each.agent or "",
    }
    groups: dict[str, list[D]] = {}
    for entry in entries:
        groups.setdefault(heading[filters.by](entry), []).append(entry)
    return [Group(_named(name, filters), _address(name, filters), group) for name, group in groups.items()]


def _named(name: str, filters: Filters) -> str:
    if filters.by == "day":
        return day(name)
    if name:
        return readable(name) if filters.by == "project" else name
    return f"Without {'an' if filters.by == 'agent' else 'a'} {filters.by}"


def _address(name: str, filters: Filters) -> str:
    if filters.by == "day" or not name:
        return ""
    field = "namespace" if filters.by == "project" else filters.by
    return filters.address(by="day", **{field: name})


def in_parts(names: Sequence[str], most: int) -> list[Sequence[str]]:
    """Return the names in parts of at most `most`."""
    return [names[at : at + most] for at in range(0, len(names), most)]
