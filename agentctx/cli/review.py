"""`agentctx review`: decide about what waits, with one key each."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from agentctx.cli.connection import connect
from agentctx.cli.edit import draft, edit_file, edited_text
from agentctx.cli.layout import one_line
from agentctx.cli.options import OnlyNamespace
from agentctx.cli.output import line_width, paint, print_line
from agentctx.client.api_call import write_call
from agentctx.client.by_key import entry_path
from agentctx.errors import AgentctxError, InvalidInput, NotFound
from agentctx.names import readable
from agentctx.text.screening.visible import marked
from agentctx.wire import CaptureModeRequest, EntryView, KeepRequest, ReleaseReply, RememberMode, ReviewReply

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client

_KEYS: Final = "k keep  e edit  m merge  f forget  a always  s skip  q quit"
_DONE: Final = {"k": "kept", "e": "kept", "m": "merged", "f": "forgotten", "a": "kept, as what follows"}
_SIMILAR: Final = 3


Mode = Annotated[RememberMode | None, typer.Option(help="Only set whether captures wait from now on.")]
OfAgent = Annotated[str | None, typer.Option("--agent", help="With --mode, set it only for this agent.")]


def review(
    ctx: typer.Context, namespace: OnlyNamespace = None, mode: Mode = None, agent: OfAgent = None
) -> None:
    """Decide about each captured or imported entry that waits: keep, edit, merge or forget it.

    A merge appends the text to a similar entry of your choice. Always: keep it, and let what this agent
    captures in this project from now on be kept at once. What you skip still waits.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput("A review needs a terminal.", hint="`agentctx list --waiting` shows what waits.")
    with connect(ctx) as client:
        if mode is not None:
            _set_mode(client, mode, namespace, agent)
            return
        entries = list(_waiting(client, namespace))
        for number, entry in enumerate(entries, start=1):
            print_line("\n".join(_shown(entry, f"{number} of {len(entries)}")))
            if _decided(client, entry) == "q":
                return
        print_line("That was all." if entries else "Nothing waits.")


def _waiting(client: Client, namespace: str | None) -> Iterator[EntryView]:
    found = {each.namespace for each in client.review().captures if each.waiting}
    for each in sorted(found if namespace is None else found & {namespace}):
        yield from client.iterate(namespace=each, waiting=True)


def _set_mode(client: Client, mode: RememberMode, namespace: str | None, agent: str | None) -> None:
    for each in client.review().captures:
        if each.mode and namespace in (None, each.namespace) and agent in (None, each.agent):
            asked = CaptureModeRequest(namespace=each.namespace, agent=each.agent, mode=mode, way="terminal")
            client._send(write_call("PUT", "review/mode", ReviewReply, asked))  # noqa: SLF001 - as in `_does`
            print_line(f"{each.agent or 'no agent'} in {readable(each.namespace)}: {each.mode}, now {mode}")


def _shown(entry: EntryView, place: str) -> list[str]:
    width = line_width() or 80
    whose = f"{place}  {entry.agent or entry.origin} in {readable(entry.namespace)}  {entry.updated}"
    text = [textwrap.fill(line, width - 2) for line in marked(entry.content).splitlines()]
    if entry.flags:
        text.append(
            textwrap.fill(f"It resembles instructions to an LLM ({', '.join(entry.flags)}).", width - 2)
        )
    if hidden := entry.attributes.get("supersedes"):
        text.append(textwrap.fill(f"It would replace {', '.join(hidden)}.", width - 2))
    return [
        "",
        *textwrap.wrap(whose, width),
        textwrap.indent("\n".join(text), "  "),
        *textwrap.wrap(_KEYS, width),
    ]


def _decided(client: Client, entry: EntryView) -> str:
    """Do what keys say until one decides about the entry; return that key."""
    while (key := typer.getchar().lower()) not in "sq":
        try:
            if key in _DONE and _does(client, entry, key):
                print_line(paint(_DONE[key], "green"))
                return key
        except AgentctxError as error:
            print_line(f"{paint('not done', 'yellow')}  {error.message}")
    return key


def _does(client: Client, entry: EntryView, key: str) -> bool:
    """Carry out a decision; False if it was withdrawn."""
    if key == "f":
        client.forget(entry.id, if_version=entry.version)
        return True
    into = _similar(client, entry) if key == "m" else None
    if key == "m" and into is None:
        return False
    version = _edited(client, entry) if key == "e" else entry.version
    request = KeepRequest(way="terminal", version=version, always=key == "a")
    client._send(write_call("POST", f"{entry_path(entry.id)}/keep", ReleaseReply, request))  # noqa: SLF001 - no client may keep
    if into is not None:
        client.edit(into.id, content=f"{into.content}\n\n{entry.content}", if_version=into.version)
        client.forget(entry.id)
    return True


def _edited(client: Client, entry: EntryView) -> int:
    with draft(entry.content) as file:
        edit_file(file)
        text = edited_text(file, entry.content)
        return client.edit(entry.id, content=text, if_version=entry.version).version


def _similar(client: Client, entry: EntryView) -> EntryView | None:
    """Let the user choose one of the most similar entries; None if they choose none."""
    hits = client.search(entry.content[:2_000], namespaces=[entry.namespace], limit=10).results
    ids = [each for each in dict.fromkeys(hit.id for hit in hits) if each != entry.id][:_SIMILAR]
    found = [each for each in map(client.get, ids) if each.collection != "learning"]
    if not found:
        raise NotFound("No other entry is similar.")
    for number, each in enumerate(found, start=1):
        print_line(one_line(f"{number}  {each.content}", line_width()))
    chosen = typer.getchar()
    return found[int(chosen) - 1] if chosen in map(str, range(1, len(found) + 1)) else None
