"""Options and arguments that several commands share."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeAlias

import typer

from agentctx.bounded_files import read_bounded
from agentctx.cli.output import print_note
from agentctx.cli.scope import checked_namespace, namespaces_here
from agentctx.times import lacks_zone
from agentctx.wire import COLLECTIONS, InjectionPosition, Order, Origin


def checked(named: Any) -> Any:
    """Return the value of an option for one namespace, none, or several. Raises `InvalidInput`."""
    if isinstance(named, list):
        return [checked_namespace(each) for each in named]
    return None if named is None else checked_namespace(named)


KNOWLEDGE_CATEGORIES = ("rule", "definition", "preference", "fact", "pattern", "correction")
LEARNING_CATEGORIES = (
    "tool_error",
    "provider_error",
    "user_correction",
    "timeout",
    "permission",
    "general",
)

CATEGORIES = tuple(dict.fromkeys((*KNOWLEDGE_CATEGORIES, *LEARNING_CATEGORIES)))


def complete_collection(incomplete: str) -> list[str]:
    """Complete the built-in collections and those in the config file that this user's daemon reads."""
    return _beginning([*COLLECTIONS, *_own_collections()], incomplete)


def complete_knowledge_category(incomplete: str) -> list[str]:
    return _beginning(KNOWLEDGE_CATEGORIES, incomplete)


def complete_learning_category(incomplete: str) -> list[str]:
    return _beginning(LEARNING_CATEGORIES, incomplete)


def complete_category(incomplete: str) -> list[str]:
    return _beginning((*KNOWLEDGE_CATEGORIES, *LEARNING_CATEGORIES), incomplete)


def _beginning(words: tuple[str, ...] | list[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _own_collections() -> list[str]:
    from agentctx.config.paths import SYSTEM_CONFIG, config_candidates

    # An unreadable config is reported by the commands that need it, not during completion.
    with suppress(OSError, ValueError):
        file = next((path for path in (*config_candidates(), SYSTEM_CONFIG) if path.is_file()), None)
        if file is not None:
            collections = tomllib.loads(read_bounded(file).decode()).get("collections")
            return sorted(collections) if isinstance(collections, dict) else []
    return []


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
OptionalSession: TypeAlias = Annotated[
    str | None, typer.Option(help="Only entries of this session or of no session.")
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


def refuse_blank(**criteria: object) -> None:
    """Refuse criteria that are empty, such as from an unset variable: they would select what nobody meant."""
    for name, value in criteria.items():
        if isinstance(value, str) and not value.strip():
            raise typer.BadParameter("is empty; leave it out, or name something", param_hint=f"--{name}")


Agent: TypeAlias = Annotated[str | None, typer.Option(help="Name of the agent that saves it.")]
OriginOption: TypeAlias = Annotated[Origin, typer.Option("--origin", help="Origin of the entry.")]
Ttl: TypeAlias = Annotated[
    str | None, typer.Option("--ttl", help="Forget it after this time: 90s, 30m, 12h, 30d, 4w.")
]
DerivedFrom: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--derived-from",
        metavar="ID",
        help="Id or key of an entry it was derived from, which limits its trust. Repeatable.",
    ),
]
Source: TypeAlias = Annotated[str | None, typer.Option(help="Where it comes from: a file or a URL.")]
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
Wait: TypeAlias = Annotated[bool, typer.Option("--wait", help="Return once it can be found by meaning.")]

Query: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="QUERY", help="The question in plain words; no quotes needed."),
]
ByAgent: TypeAlias = Annotated[str | None, typer.Option("--agent", help="Only entries of this agent.")]
ByCategory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--category", autocompletion=complete_category, help=f"Only this category: {', '.join(CATEGORIES)}."
    ),
]
ByTags: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only entries with this tag; repeat to require several."),
]


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
Limit: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of results. Default: the daemon's.")
]
OrderOption: TypeAlias = Annotated[Order, typer.Option("--order", help="Order of the results.")]
MaxDistance: TypeAlias = Annotated[
    float | None, typer.Option(min=0, max=2, help="Drop passages farther than this cosine distance.")
]
Budget: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Maximum tokens of the block.")]
PositionOption: TypeAlias = Annotated[
    InjectionPosition | None,
    typer.Option("--position", help="Position of the block in the LLM call; a receipt is kept."),
]


def with_options(group: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that `group` declares to a command, which gets them by name as `options`."""

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        own, shared = _parameters(command), _parameters(group)
        # The shared options take the place of the command's `options`.
        at = list(own).index("options")
        shown = [*list(own.values())[:at], *shared.values(), *list(own.values())[at + 1 :]]

        def run(**given: Any) -> None:
            options = {name: None if (value := given.pop(name)) == [] else value for name in shared}
            command(options=options, **given)

        update_wrapper(run, command)
        del run.__wrapped__  # type: ignore[attr-defined]  # typer would see its signature instead
        run.__annotations__ = {each.name: each.annotation for each in shown}
        vars(run)["__signature__"] = Signature(shown)
        return run

    return declare


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    return dict(signature(function, eval_str=True).parameters)


def filter_options(
    *,
    collections: Collections = None,
    session: OptionalSession = None,
    agent: ByAgent = None,
    category: ByCategory = None,
    tags: ByTags = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
) -> None:
    """Declare the options that filter a query or a list, with the names from `EntryFilter`."""


def save_options(
    *,
    tags: Tags = None,
    cues: Cues = None,
    namespace: SavedNamespace,
    agent: Agent = None,
    origin: OriginOption = "agent",
    derived_from: DerivedFrom = None,
    ttl: Ttl = None,
    source: Source = None,
    if_version: IfVersion = None,
    wait: Wait = False,
) -> None:
    """Declare the options that every save takes, with the names from `NoteOptions`."""
