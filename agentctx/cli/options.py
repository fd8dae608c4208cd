"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from agentctx.cli.completion import complete_category, complete_collection
from agentctx.wire import InjectionPosition, Order, Origin

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="Config file. Default: the first of the usual places that exists."),
]
DataDir: TypeAlias = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the database.")]
EntryId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="Id of the entry.")]
Namespace: TypeAlias = Annotated[str, typer.Option(help="Who shares the entry.")]
AskedNamespaces: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        help="Whose memory is asked; repeat to ask several. Default: default.",
    ),
]
OptionalSession: TypeAlias = Annotated[
    str | None, typer.Option(help="Only entries of this session and of none.")
]
Collections: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--collection",
        "-c",
        metavar="COLLECTION",
        autocompletion=complete_collection,
        help="Only this collection; repeat for more.",
    ),
]

Text: TypeAlias = Annotated[
    str, typer.Argument(metavar="TEXT|-", help="The text, or - to read it from stdin.")
]
Session: TypeAlias = Annotated[str, typer.Option(help="Session it belongs to.")]
Agent: TypeAlias = Annotated[str | None, typer.Option(help="Name of the agent that saves it.")]
OriginOption: TypeAlias = Annotated[Origin, typer.Option("--origin", help="Who made it, and how.")]
Ttl: TypeAlias = Annotated[
    str | None, typer.Option("--ttl", help="Forget it after that: 90s, 30m, 12h, 30d, 4w.")
]
DerivedFrom: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--derived-from",
        metavar="ID",
        help="Id of an entry it was derived from, which limits its trust. Repeatable.",
    ),
]
Source: TypeAlias = Annotated[str | None, typer.Option(help="Where it is from: a file, an address.")]
Tags: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; repeat for more.")
]
Cues: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--cue",
        metavar="TEXT",
        help="A question or situation in which it matters, in other words; repeat for more, up to 8.",
    ),
]
IfVersion: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Save only if this is the live version; 0: only if it is new.")
]
Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Return when it can be found by meaning.")]

Query: TypeAlias = Annotated[str, typer.Argument(metavar="QUERY", help="The question, in plain words.")]
ByAgent: TypeAlias = Annotated[str | None, typer.Option("--agent", help="Only entries of this agent.")]
ByCategory: TypeAlias = Annotated[
    str | None,
    typer.Option("--category", autocompletion=complete_category, help="Only this category."),
]
ByTags: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only with this tag; repeat: all of them.")
]
Since: TypeAlias = Annotated[str | None, typer.Option(help="Not older than this: 7d, or an RFC 3339 time.")]
Until: TypeAlias = Annotated[str | None, typer.Option(help="Older than this: 7d, or an RFC 3339 time.")]
Limit: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Most results. Default: the daemon's.")]
OrderOption: TypeAlias = Annotated[Order, typer.Option("--order", help="What comes first.")]
MaxDistance: TypeAlias = Annotated[
    float | None, typer.Option(min=0, max=2, help="Drop passages farther than this cosine distance.")
]
Budget: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Most tokens of the block.")]
PositionOption: TypeAlias = Annotated[
    InjectionPosition | None,
    typer.Option(
        "--position", help="As an LLM call would get it there: what is not close enough is left out."
    ),
]
