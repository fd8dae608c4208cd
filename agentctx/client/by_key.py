"""Calls on an entry that is named by its id or by its key. No I/O.

The id of a key is looked up first. It never belongs to another entry, so what follows is done to the entry
that had the key, or fails because it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from agentctx import wire
from agentctx.client.api_call import ApiCall, query_string, read_call, segment, write_call
from agentctx.client.saves import EMBEDDED_WAIT_S
from agentctx.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from agentctx.client.options import ByKey, EditFields

T = TypeVar("T")
_MAX_NAMED = 10


def get(
    entry_id: str | None = None, version: int | None = None, **named: Unpack[ByKey]
) -> ApiCall[wire.EntryView]:
    """Return the live version of an entry, or the given version, by its id or its key: `get(key="plan")`.

    Raises:
        NotFound.
        InvalidInput: several collections have the key.
    """
    query = {"version": version}
    return _call_on(entry_id, named, lambda id_: read_call(entry_path(id_), wire.EntryView, query))


def edit(
    entry_id: str | None = None,
    *,
    key: str | None = None,
    namespace: str | None = None,
    collection: str | None = None,
    **changes: Unpack[EditFields],
) -> ApiCall[wire.SaveResult]:
    """Change fields of an entry, by its id or its key; the others stay. Raises as `get`, VersionConflict."""
    takes_s = EMBEDDED_WAIT_S if changes.get("wait") is not None else 0.0
    send = partial(write_call, "PATCH", kind=wire.SaveResult, takes_s=takes_s)
    named: ByKey = {"key": key, "namespace": namespace, "collection": collection}
    return _call_on(entry_id, named, lambda id_: send(entry_path(id_), request=wire.EditRequest(**changes)))


def forget(
    entry_id: str | None = None,
    if_version: int | None = None,
    *,
    with_copies: bool = False,
    **named: Unpack[ByKey],
) -> ApiCall[wire.ForgetReply]:
    """Delete an entry, by its id or its key, and all its versions permanently. Raises like `edit`.

    `with_copies` also deletes captured replies that repeat it; otherwise they are only listed.
    """
    query = query_string({"if_version": if_version, "with_copies": with_copies or None})
    return _call_on(
        entry_id, named, lambda id_: write_call("DELETE", entry_path(id_) + query, wire.ForgetReply)
    )


def entry_path(entry_id: str) -> str:
    return f"entries/{segment(entry_id)}"


def _call_on(entry_id: str | None, named: ByKey, call: Callable[[str], ApiCall[T]]) -> ApiCall[T]:
    """Return the call on an id, after its lookup if the entry is named by key. Raises `InvalidInput`."""
    key = named.get("key")
    if entry_id is not None and key is None:
        return call(entry_id)
    if entry_id is not None or not key:
        raise InvalidInput("Name one entry, by its id or by its key.", hint="For example key='plan'.")
    lookup: ApiCall[Any] = read_call(
        "entries", wire.EntryPage, {**named, "content": False, "limit": _MAX_NAMED}
    )
    return lookup._replace(then=lambda page: call(_the_one(page.entries, named).id))


def _the_one(entries: list[wire.EntryView], named: ByKey) -> wire.EntryView:
    if len(entries) == 1:
        return entries[0]
    from agentctx.names import readable

    namespace = readable(named.get("namespace") or wire.DEFAULT_NAMESPACE)
    if not entries:
        raise NotFound(
            f"No entry of the namespace {namespace!r} has the key {named.get('key')!r}.",
            hint="namespace=… looks in another one; `agentctx namespaces` says where entries are.",
        )
    choices = ", ".join(f"collection={each.collection!r}" for each in entries)
    raise InvalidInput(
        f"{len(entries)} entries of the namespace {namespace!r} have the key {named.get('key')!r}.",
        hint=f"Name the collection of one: {choices}.",
    )
