"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from agentctx.cli.output import print_note
from agentctx.cli.scope import checked_namespace, namespaces_here
from agentctx.config.bounded_files import read_bounded
from agentctx.times import lacks_zone
from agentctx.wire import COLLECTIONS, InjectionPosition


def checked(named: Any) -> Any:
    """Return the value of an option for one namespace, none, or several. Raises `InvalidInput`."""
    if isinstance(named, list):
        return [checked_namespace(each) for each in named]
    return None if named is None else checked_namespace(named)


KNOWLEDGE_CATEGORIES = ("rule", "definition", "preference", "fact", "pattern", "correction")
LEARNING_CATEGORIES = ("tool_error", "provider_error", "user_correction", "timeout", "permission", "general")
CATEGORIES = tuple(dict.fromkeys((*KNOWLEDGE_CATEGORIES, *LEARNING_CATEGORIES)))


def complete_collection() -> list[str]:
    """Return the built-in collections and those in the config file that this user's daemon reads."""
    import tomllib

    from agentctx.config.paths import SYSTEM_CONFIG, config_candidates

    # An unreadable config is reported by the commands that need it, not during completion.
    with suppress(OSError, ValueError):
        file = next((path for path in (*config_candidates(), SYSTEM_CONFIG) if path.is_file()), None)
        own = tomllib.loads(read_bounded(file).decode()).get("collections") if file else None
        return [*COLLECTIONS, *(sorted(own) if isinstance(own, dict) else [])]
    return list(COLLECTIONS)


AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
EntryName: TypeAlias = Annotated[str, typer.Argument(metavar="ID|KEY", help="Id or key of the entry.")]
SavedNamespace: TypeAlias = Annotated[
    str,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        default_factory=lambda: namespaces_here()[0],
        callback=checked,
        show_default=False,
        help="Where to save. Default: AGENTCTX_NAMESPACE, .agentctx.toml, the repository's, else `default`.",
    ),
]
AskedNamespaces: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        callback=checked,
        help="Where to look; repeat for several. Default: AGENTCTX_NAMESPACE, .agentctx.toml, else the "
        "repository's, your own and `default`.",
    ),
]
KeyNamespace: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        callback=checked,
        help="Where to look up a key. Default: AGENTCTX_NAMESPACE, .agentctx.toml, else the repository's, "
        "your own and `default`.",
    ),
]
OnlyNamespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", callback=checked, help="Only in this namespace. Default: in all.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")]
Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")
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


ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="Config file. Default: the first usual location that exists."),
]
DataDir: TypeAlias = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the database.")]


def refuse_blank(**criteria: object) -> None:
    """Refuse criteria that are empty, such as from an unset variable: they would select what nobody meant."""
    for name, value in criteria.items():
        if isinstance(value, str) and not value.strip():
            raise typer.BadParameter("is empty; leave it out, or name something", param_hint=f"--{name}")


Agent: TypeAlias = Annotated[str | None, typer.Option(help="Name of the agent that saves it.")]
Ttl: TypeAlias = Annotated[
    str | None, typer.Option("--ttl", help="Forget it after this time: 90s, 30m, 12h, 30d, 4w.")
]
Source: TypeAlias = Annotated[str | None, typer.Option(help="Where it comes from: a file or a URL.")]
Tags: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; repeat for more.")
]
Supersedes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--supersedes", metavar="ID|KEY", help="An entry that this one replaces in answers; repeat for more."
    ),
]
Resolves: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--resolves", metavar="ID|KEY", help="An open question that this one settles; repeat for more."
    ),
]
Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Return once it can be found by meaning.")]


def name_zone(ctx: typer.Context, text: str | None) -> str | None:
    """Say once that times without a zone are taken as UTC; return the text of the option unchanged."""
    if text is not None and lacks_zone(text) and not ctx.meta.get("zone_named"):
        ctx.meta["zone_named"] = True
        print_note(f"{text} has no zone, so it is taken as UTC; add one, like {text}+02:00")
    return text


Since: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", callback=name_zone, help="Only entries changed since: 7d, or 2026-11-21T08:00:00Z."
    ),
]
Until: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", callback=name_zone, help="Only entries changed before: 7d, or 2026-11-21T08:00:00Z."
    ),
]
Budget: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Maximum tokens of the block.")]
PositionOption: TypeAlias = Annotated[
    InjectionPosition | None,
    typer.Option("--position", help="Position of the block in the LLM call; a receipt is kept."),
]


def with_options(group: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that `group` declares to a command, which gets them by name as `options`."""
    shared = signature(group, eval_str=True).parameters

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        shown: list[Parameter] = []
        for parameter in signature(command, eval_str=True).parameters.values():
            shown += shared.values() if parameter.name == "options" else [parameter]

        def run(**given: Any) -> None:
            options = {name: None if (value := given.pop(name)) == [] else value for name in shared}
            command(options=options, **given)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in shown}
        vars(run)["__signature__"] = Signature(shown)
        return run

    return declare


def filter_options(
    *,
    collections: Collections = None,
    session: Annotated[
        str | None, typer.Option(help="Only entries of this session or of no session.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only entries of this agent.")] = None,
    category: Annotated[
        str | None,
        typer.Option(autocompletion=lambda: CATEGORIES, help=f"Only this category: {', '.join(CATEGORIES)}."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only entries with this tag; repeat to require several."),
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of results. Default: the daemon's.")
    ] = None,
    include_superseded: Annotated[
        bool | None, typer.Option("--superseded", help="Also entries that others supersede or resolve.")
    ] = None,
) -> None:
    """Declare the options that filter a query or a list, with the names from `EntryFilter`."""
