"""An entry that a caller names by its key. No I/O.

Its id is looked up first, and never belongs to another entry: what follows is done to the entry that had the
key, or fails because it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from agentctx import wire
from agentctx.client.api_call import ApiCall, read_call
from agentctx.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from agentctx.client.options import ByKey

T = TypeVar("T")
_MAX_NAMED = 10


def call_on(entry_id: str | None, named: ByKey, call: Callable[[str], ApiCall[T]]) -> ApiCall[T]:
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


def _the_one(found: list[wire.EntryView], named: ByKey) -> wire.EntryView:
    if len(found) == 1:
        return found[0]
    from agentctx.names import readable

    namespace = readable(named.get("namespace") or wire.DEFAULT_NAMESPACE)
    if not found:
        kind = f" in the collection {named.get('collection')!r}" if named.get("collection") else ""
        raise NotFound(
            f"No entry of the namespace {namespace!r} has the key {named.get('key')!r}{kind}.",
            hint="namespace=… looks in another one; `agentctx namespaces` says where entries are.",
        )
    choices = ", ".join(f"collection={each.collection!r}" for each in found)
    raise InvalidInput(
        f"{len(found)} entries of the namespace {namespace!r} have the key {named.get('key')!r}.",
        hint=f"Name the collection of one: {choices}.",
    )
