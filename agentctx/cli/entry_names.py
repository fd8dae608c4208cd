"""Looks up entries by id or by key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentctx.cli.options import current_namespace
from agentctx.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import EntryView

_ID: Final = re.compile(r"(?i:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})")
_MAX_NAMED: Final = 10


def entry_id_of(client: Client, name: str, namespace: str | None = None) -> str:
    """Return the id of the entry with this id or key. Look up a key in one namespace (None: the current).

    Raises:
        NotFound: no entry in the namespace has the key.
        InvalidInput: the name is empty, or several entries have the key; the hint lists them.
    """
    if _ID.fullmatch(name):
        return name
    if not name:
        raise InvalidInput("The id or key is empty.", hint="`agentctx list` shows both.")
    namespace = namespace or current_namespace()
    found = client.list(key=name, namespace=namespace, limit=_MAX_NAMED, content=False).entries
    if not found:
        raise NotFound(
            f"No entry of the namespace {namespace!r} has the key {name!r}.",
            hint="`agentctx list` shows keys and ids; --namespace looks in another namespace.",
        )
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} entries of the namespace {namespace!r} have the key {name!r}.",
            hint=f"Use the id of one: {', '.join(map(_described, found))}.",
        )
    return found[0].id


def _described(entry: EntryView) -> str:
    return f"{entry.id} ({entry.collection} in {entry.namespace})"
