"""Says where entries are, if a command found none where it looked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from agentctx.cli.layout import truncate_left
from agentctx.errors import AgentctxError
from agentctx.names import namespace_given, readable
from agentctx.wire.wording import counted, listed

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client

_MOST_NAMED: Final = 2
_LABEL_COLUMNS: Final = 32
_SIMILAR: Final = 0.75


def entries_elsewhere(client: Client, asked: Sequence[str], *, if_empty: bool = False) -> str:
    """Return where entries are that a question to the `asked` namespaces missed; empty if there are none.

    `if_empty`: also if one of the asked namespaces has entries.
    """
    with suppress(AgentctxError):  # the question was answered; this is only a help
        counts = {each.namespace: each.entries for each in client.namespaces().namespaces}
        if not (if_empty and any(each in counts for each in asked)):
            return describe_elsewhere(asked, counts)
    return ""


def describe_elsewhere(asked: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return where entries are, by the number in each namespace, and the command that lists them.

    A name that resembles the one that was asked comes first: it may have been misspelled.
    """
    others = sorted((each for each in counts if each not in asked), key=lambda each: (-counts[each], each))
    if not others:
        return ""
    # Only a single namespace can be a typo: several come from the working folder.
    if len(asked) == 1 and asked[0] not in counts:
        names = {readable(each): each for each in others}
        for meant in get_close_matches(readable(asked[0]), names, n=1, cutoff=_SIMILAR):
            return f"did you mean {meant}? It has {counted(counts[names[meant]], 'entry', 'entries')}"
    first, *more = (f"{counts[each]:,} in {readable(each)}" for each in others)
    number, _, where = first.partition(" ")
    verb = "entry is" if number == "1" else "entries are"
    shown = f"`agentctx list --namespace {quoted(others[0])}`" if not more else "`agentctx namespaces`"
    return f"{listed([f'{number} {verb} {where}', *more], most=_MOST_NAMED)}: {shown}"


def namespace_label(namespace: str, home: str | None) -> list[str]:
    """Return `in NAMESPACE`, to mark an entry that is not in `home`. Without a home, nothing is marked."""
    if home is None or namespace == home:
        return []
    return [f"in {truncate_left(readable(namespace), _LABEL_COLUMNS)}"]


def quoted(namespace: str) -> str:
    """Return the namespace as a word of a shell, as people read it if that names it, too."""
    shown = readable(namespace)
    return shlex.quote(shown if namespace_given(shown) == namespace else namespace)
