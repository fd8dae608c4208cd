"""Which entries supersede or resolve others, and so hide them from the answers: the links, in steps.

The attributes `supersedes` and `resolves` of each version name the older entries by id; the table
`supersessions` has those of the live versions, for the way back. An older entry is hidden while the newer
one, or one that supersedes that in turn, is live, unexpired, not in quarantine and of no lower trust.
Whatever removes or withdraws the newer thus brings the older back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from agentctx.errors import InvalidInput, NotFound, SupersessionRefused
from agentctx.names import normalised
from agentctx.storage.ids import is_id
from agentctx.storage.records import TRUST_ORDER, Draft, Entry
from agentctx.storage.steps import Execute, ExecuteMany, LockEntries, Rows, Statement, Steps
from agentctx.storage.versions import is_expired
from agentctx.wire import Closure, Trust

FIELDS: Final[Mapping[str, Closure]] = {"supersedes": "superseded", "resolves": "resolved"}
"""The attributes that name older entries, and what each does to them."""
MAX_SHOWN: Final = 50
"""Up to this many links of a chain are followed to show it; any number to hide an entry."""

Links: TypeAlias = Mapping[str, Closure]
"""What an entry does to others, by their ids, or as given also by their keys."""

_STANDS: Final = """n.live AND n.namespace = e.namespace AND (n.expires IS NULL OR n.expires > {now})
    AND (n.trust IN (e.trust, 'operator') OR e.trust = 'external')
    AND NOT EXISTS (SELECT 1 FROM quarantine WHERE quarantine.entry = n.id)"""
NOT_SUPERSEDED: Final = f"""(NOT EXISTS (SELECT 1 FROM supersessions WHERE older = e.id) OR NOT EXISTS (
    WITH RECURSIVE later (id) AS (
      SELECT newer FROM supersessions WHERE older = e.id
      UNION SELECT supersessions.newer FROM later JOIN supersessions ON supersessions.older = later.id)
    SELECT 1 FROM later CROSS JOIN entries n WHERE n.id = later.id AND {_STANDS}))"""  # noqa: S608 - constant
"""The condition on `e` of both engines; `{now}` stands for a parameter. The second part runs for few rows."""
_LATER: Final = """WITH RECURSIVE later (id) AS (
      SELECT newer FROM supersessions WHERE older = ?
      UNION SELECT supersessions.newer FROM later JOIN supersessions ON supersessions.older = later.id)
    SELECT id FROM later"""
_CHAINS: Final = f"""WITH RECURSIVE later (older, id, closed, depth) AS (
      SELECT older, newer, closed, 1 FROM supersessions WHERE older IN ?ids
      UNION SELECT later.older, supersessions.newer, later.closed, later.depth + 1
      FROM later JOIN supersessions ON supersessions.older = later.id WHERE later.depth < {MAX_SHOWN})
    SELECT e.id, n.id, min(later.closed) FROM later CROSS JOIN entries e CROSS JOIN entries n
    WHERE e.id = later.older AND e.live AND n.id = later.id AND {_STANDS.format(now="?")}
    GROUP BY e.id, n.id ORDER BY min(later.depth), n.id"""  # noqa: S608 - constants
_LINK: Final = """INSERT INTO supersessions (older, newer, closed) VALUES (?, ?, ?)
    ON CONFLICT (older, newer) DO UPDATE SET closed = excluded.closed"""
# What superseded the erased entry keeps hiding what that one did.
_JOIN: Final = """INSERT INTO supersessions (older, newer, closed)
    SELECT former.older, later.newer, former.closed FROM supersessions former
    JOIN supersessions later ON later.older = former.newer WHERE former.newer = ? ON CONFLICT DO NOTHING"""
_UNLINK: Final = "DELETE FROM supersessions WHERE newer = ?"


class SupersededState(NamedTuple):
    """Why answers leave an entry out, and the ids of the entries that are in its place, nearest first."""

    closed: Closure
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FindNamed(Statement[Sequence[Entry]]):
    """Find the live entries of a namespace with this id, or this key in any collection, expired or not."""

    namespace: str
    name: str


def links_of(attributes: Mapping[str, Any]) -> Links:
    """Return what the attributes of an entry, or a save, name as superseded and as resolved."""
    return {name: closed for field, closed in FIELDS.items() for name in attributes.get(field) or ()}


def with_links(draft: Draft, links: Links) -> Draft:
    """Return the draft with these links in its attributes, in place of its own."""
    rest = {name: value for name, value in draft.attributes.items() if name not in FIELDS}
    named = {field: [each for each in links if links[each] == closed] for field, closed in FIELDS.items()}
    return replace(draft, attributes={**rest, **{field: ids for field, ids in named.items() if ids}})


def kept(entry: Entry, draft: Draft) -> Draft:
    """Return the draft of a save over an entry: it supersedes more, never less."""
    links = links_of(entry.attributes)
    return with_links(draft, {**links, **links_of(draft.attributes)}) if links else draft


def resolve(draft: Draft, entry_id: str, before: Entry | None, *, now: int) -> Steps[Draft]:
    """Return the draft with ids in place of keys. What the version `before` named is not checked again.

    Raises:
        NotFound: the namespace has no such entry.
        InvalidInput: several entries have the key.
        SupersessionRefused: the other has a higher trust, is this entry, or supersedes it.
    """
    known = links_of(before.attributes) if before else {}
    given = links_of(draft.attributes)
    if given.keys() <= known.keys():
        return draft
    later = (yield from _later(entry_id)) if before else set()
    links: dict[str, Closure] = {}
    for name, closed in given.items():
        if name in known:
            links[name] = closed
            continue
        older = yield from _find(name, draft, now)
        _check(older, entry_id, draft.trust, later)
        links[older.id] = closed
    if before:  # two saves could otherwise close a circle together
        yield from LockEntries(list(links))
    return with_links(draft, links)


def without_circles(draft: Draft, entry_id: str) -> Steps[Draft]:
    """Return an imported draft without links that close a circle. Others may be to entries yet to come."""
    links = links_of(draft.attributes)
    if not links:
        return draft
    later = yield from _later(entry_id)
    sound = {each: closed for each, closed in links.items() if is_id(each) and each not in {entry_id, *later}}
    return with_links(draft, sound)


def link(entry_id: str, before: Entry | None, after: Draft) -> Steps[tuple[str, ...]]:
    """Record the links of the live version; return the ids of what it did not name before."""
    old, new = links_of(before.attributes) if before else {}, links_of(after.attributes)
    if old.keys() - new.keys():
        yield from Execute(_UNLINK, (entry_id,))
        old = {}
    added = [(older, entry_id, closed) for older, closed in new.items() if old.get(older) != closed]
    if added:
        yield from ExecuteMany(_LINK, added)
    return tuple(older for older, *_ in added)


def unlink(entry_id: str) -> Steps[None]:
    """Remove the links of an erased entry. Those to it stay: it may be imported again."""
    if (yield from Rows("SELECT 1 FROM supersessions WHERE newer = ? LIMIT 1", (entry_id,))):
        yield from Execute(_JOIN, (entry_id,))
        yield from Execute(_UNLINK, (entry_id,))


def chains(entry_ids: Sequence[str], *, now: int) -> Steps[Mapping[str, SupersededState]]:
    """Return what hides the entries, of those that are hidden."""
    found: dict[str, SupersededState] = {}
    for older, newer, closed in (yield from Rows(_CHAINS, (entry_ids, now))):
        nearer = found.get(older, SupersededState(closed, ()))
        found[older] = SupersededState(nearer.closed, (*nearer.by, newer))
    return found


def _later(entry_id: str) -> Steps[set[str]]:
    return {row[0] for row in (yield from Rows(_LATER, (entry_id,)))}


def _find(name: str, draft: Draft, now: int) -> Steps[Entry]:
    named = name.lower() if is_id(name.lower()) else name
    found = yield from FindNamed(draft.namespace, named)
    if not found and (known_as := normalised(named)) != named:  # a file's key is as given
        found = yield from FindNamed(draft.namespace, known_as)
    found = [each for each in found if not is_expired(each, now)]
    found = [each for each in found if each.collection == draft.collection] or found
    if not found:
        raise NotFound(
            f"The namespace {draft.namespace!r} has no entry with the id or key {name!r}.",
            hint="`agentctx list` shows both.",
        )
    if len(found) > 1:
        ids = ", ".join(f"{each.id} ({each.collection})" for each in found)
        raise InvalidInput(f"{len(found)} entries have the key {name!r}.", hint=f"Use the id of one: {ids}.")
    return found[0]


def _check(older: Entry, entry_id: str, trust: Trust, later: Iterable[str]) -> None:
    if older.id == entry_id:
        raise SupersessionRefused(
            "An entry cannot supersede itself.", hint="Saving its key again adds a version."
        )
    if older.id in later:
        raise SupersessionRefused(
            f"Entry {older.id!r} supersedes this one.", hint="Forget that one, or save under a new key."
        )
    if TRUST_ORDER.index(older.trust) > TRUST_ORDER.index(trust):
        raise SupersessionRefused(
            f"Entry {older.id!r} is of trust {older.trust}; what is {trust} cannot supersede it.",
            hint="Save without it, and let its author or an operator decide.",
        )
