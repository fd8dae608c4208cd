"""The connection of a command to the daemon, and the entries that a user names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from agentctx import __version__
from agentctx.cli.elsewhere import entries_elsewhere, quoted
from agentctx.cli.output import print_note
from agentctx.cli.scope import ask
from agentctx.errors import DaemonUnreachable, DeadlineExceeded, InvalidInput, NotFound
from agentctx.names import readable

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client
    from agentctx.wire import EntryView

_ID: Final = re.compile(r"(?i:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})")
_UUID: Final = re.compile(r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""What may be a key, or the id of an imported entry."""
_MAX_NAMED: Final = 10
TIMEOUT_S = 30.0
WAITING_TIMEOUT_S = 120.0
"""Timeout of a save that waits until the entry is embedded; the daemon answers within half a minute."""


@contextmanager
def connect(ctx: typer.Context, *, timeout_s: float = TIMEOUT_S) -> Iterator[Client]:
    """Connect to the daemon of the global `--socket`; note on stderr if its version differs."""
    from agentctx.client.sync_client import Client

    with Client(ctx.obj, timeout_s=timeout_s, start_timeout_s=0) as client:
        try:
            yield client
        except (DaemonUnreachable, DeadlineExceeded) as error:
            from agentctx.daemon.host.installed_service import explained

            raise explained(error, ctx.obj) from None
    if client.daemon_version not in {None, __version__}:
        print_note(
            f"the daemon is version {client.daemon_version}, this command {__version__}; restart the daemon"
        )


def entry_id_of(client: Client, name: str, *namespaces: str | None) -> str:
    """Return the id of the entry with this id or key. Look up a key in these namespaces, else in those here.

    Raises:
        NotFound: no entry there has the key.
        InvalidInput: the name is empty, or several entries have the key; the hint lists them.
    """
    if _ID.fullmatch(name):
        return name
    if not name:
        raise InvalidInput("The id or key is empty.", hint="`agentctx list` shows both.")

    def with_key(namespaces: list[str]) -> list[EntryView]:
        with_name = partial(client.list, key=name, limit=_MAX_NAMED, content=False)
        return [entry for each in namespaces for entry in with_name(namespace=each).entries]

    asked, matches = ask(client, [each for each in namespaces if each], with_key)
    if not matches and _UUID.fullmatch(name):
        return name.lower()
    if not matches:
        hint = entries_elsewhere(client, asked)
        raise NotFound(
            f"No entry of {_named(asked)} has the key {name!r}.",
            hint=f"{hint[:1].upper()}{hint[1:]}." if hint else "`agentctx list` shows keys and ids.",
        )
    if len(matches) > 1:
        raise InvalidInput(
            f"{len(matches)} entries of {_named(asked)} have the key {name!r}.", hint=_choice(matches)
        )
    return matches[0].id


def _named(namespaces: list[str]) -> str:
    *most, last = (repr(readable(each)) for each in namespaces)
    return f"the namespaces {', '.join(most)} and {last}" if most else f"the namespace {last}"


def _choice(matches: list[EntryView]) -> str:
    """Return what tells the entries apart: their namespaces if these differ, else their ids."""
    namespaces = dict.fromkeys(each.namespace for each in matches)
    if len(namespaces) == len(matches):
        return f"Name one namespace: {' or '.join(f'--namespace {quoted(each)}' for each in namespaces)}."
    described = (f"{each.id} ({each.collection} in {readable(each.namespace)})" for each in matches)
    return f"Use the id of one: {', '.join(described)}."
