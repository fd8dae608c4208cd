"""The connection of a command to the daemon, and the entries that a user names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from agentctx import __version__
from agentctx.cli.options import current_namespace
from agentctx.cli.output import print_note
from agentctx.errors import DaemonUnreachable, InvalidInput, NotFound
from agentctx.names import readable

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client

_ID: Final = re.compile(r"(?i:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})")
_MAX_NAMED: Final = 10
TIMEOUT_S = 30.0
WAITING_TIMEOUT_S = 120.0
"""Timeout of a save that waits until the entry is embedded; the daemon answers within half a minute."""


@contextmanager
def connect(ctx: typer.Context, *, timeout_s: float = TIMEOUT_S) -> Iterator[Client]:
    """Connect to the daemon of the global `--socket`; note on stderr if its version differs.

    Raises:
        DaemonUnreachable: none answers. If it is the machine's service, the message says why not.
    """
    from agentctx.client.sync_client import Client
    from agentctx.client.transport import ClosedToUser

    with Client(ctx.obj, timeout_s=timeout_s, start_timeout_s=0) as client:
        try:
            yield client
        except ClosedToUser:
            raise
        except DaemonUnreachable as error:
            from agentctx.host.installed_service import why_unreachable

            raise why_unreachable(ctx.obj) or error from None
    if client.daemon_version not in {None, __version__}:
        print_note(
            f"the daemon is version {client.daemon_version}, this command {__version__}; restart the daemon"
        )


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
            f"No entry of the namespace {readable(namespace)!r} has the key {name!r}.",
            hint="`agentctx list` shows keys and ids; --namespace looks in another namespace.",
        )
    if len(found) > 1:
        described = (f"{each.id} ({each.collection} in {readable(each.namespace)})" for each in found)
        raise InvalidInput(
            f"{len(found)} entries of the namespace {readable(namespace)!r} have the key {name!r}.",
            hint=f"Use the id of one: {', '.join(described)}.",
        )
    return found[0].id
