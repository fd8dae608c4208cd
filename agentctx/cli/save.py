"""`agentctx save …`, one command per collection, and `agentctx learning …`: whether a learning helped."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Unpack

import typer

from agentctx.cli.app import SuggestingGroup
from agentctx.cli.connection import TIMEOUT_S, WAITING_TIMEOUT_S, connect, entry_id_of
from agentctx.cli.options import (
    KNOWLEDGE_CATEGORIES,
    LEARNING_CATEGORIES,
    Agent,
    AsJson,
    EntryName,
    KeyNamespace,
    Resolves,
    SavedNamespace,
    Source,
    Supersedes,
    Tags,
    Ttl,
    Wait,
    with_options,
)
from agentctx.cli.output import print_note, show
from agentctx.client.options import NoteOptions, SaveFields
from agentctx.errors import AgentctxError, DeadlineExceeded, InvalidInput, TooLarge
from agentctx.names import readable
from agentctx.wire import DEFAULT_NAMESPACE, Origin, SaveResult

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client


class KindGroup(SuggestingGroup):
    """The commands below `save`. For a text without a kind it names the command that saves the text."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a kind. Called by Typer, whose argument classes are private."""
        known = super().get_command(ctx, args[0])
        if known is None and not ctx.resilient_parsing and not get_close_matches(args[0], self.commands):
            ctx.fail(missing_kind_message(args))
        return super().resolve_command(ctx, args)


def missing_kind_message(args: Sequence[str]) -> str:
    """Return the error for `agentctx save TEXT`, with the command that saves this text."""
    text = " ".join(takewhile(lambda word: word == "-" or not word.startswith("-"), args))
    shown = shlex.quote(text) if text.isprintable() and len(text) <= _SHOWN_TEXT else "TEXT"
    return (
        f"Say what kind of memory it is: agentctx save knowledge --key NAME {shown}. "
        "`agentctx save --help` lists the other kinds."
    )


app = typer.Typer(
    cls=KindGroup, no_args_is_help=True, help="Save an entry; it is on disk when the command returns."
)
EMBEDDED_TIMEOUT_S = 300.0
"""How long `--wait` polls after a save was acknowledged: the first start builds the model."""
_PAUSE_S = 1.0
MAX_STDIN_BYTES = 16 * 1024 * 1024
_SHOWN_TEXT = 60
"""Most characters of a text that an error repeats."""


Text: TypeAlias = Annotated[
    str, typer.Argument(metavar="TEXT|-", help="The text, or - to read it from stdin.")
]
Session: TypeAlias = Annotated[str, typer.Option(help="Session it belongs to.")]


def save_options(
    *,
    tags: Tags = None,
    cues: Annotated[
        list[str] | None,
        typer.Option(
            "--cue",
            metavar="TEXT",
            help="A question or situation in which it matters, in other words; repeat for more, up to 8.",
        ),
    ] = None,
    namespace: SavedNamespace,
    agent: Agent = None,
    origin: Annotated[Origin, typer.Option(help="Origin of the entry.")] = "agent",
    derived_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Id or key of an entry it was derived from, which limits its trust. Repeatable.",
        ),
    ] = None,
    supersedes: Supersedes = None,
    resolves: Resolves = None,
    ttl: Ttl = None,
    source: Source = None,
    if_version: Annotated[
        int | None,
        typer.Option(min=0, help="Save only if this is the live version; 0: only if it is new."),
    ] = None,
    wait: Wait = False,
) -> None:
    """Declare the options that every save takes, with the names from `NoteOptions`."""


@app.command()
@with_options(save_options)
def knowledge(
    ctx: typer.Context,
    text: Text,
    *,
    key: Annotated[str, typer.Option(help="Stable name; saving the key again adds a version.")],
    category: Annotated[
        str,
        typer.Option(
            autocompletion=lambda: KNOWLEDGE_CATEGORIES,
            metavar="|".join(KNOWLEDGE_CATEGORIES),
            help="Kind of knowledge.",
        ),
    ] = "fact",
    options: NoteOptions,
    as_json: AsJson = False,
) -> None:
    """Save a fact that holds until it is replaced."""
    _save(ctx, "knowledge", read_content(text), as_json, key=key, category=category, **options)


@app.command()
@with_options(save_options)
def observation(
    ctx: typer.Context, text: Text, *, session: Session, options: NoteOptions, as_json: AsJson = False
) -> None:
    """Save what was seen or said in a session."""
    _save(ctx, "observation", read_content(text), as_json, session=session, **options)


@app.command()
@with_options(save_options)
def reflection(
    ctx: typer.Context, text: Text, *, session: Session, options: NoteOptions, as_json: AsJson = False
) -> None:
    """Save what was concluded from a session."""
    _save(ctx, "reflection", read_content(text), as_json, session=session, **options)


@app.command()
@with_options(save_options)
def learning(
    ctx: typer.Context,
    *,
    trigger: Annotated[str, typer.Option(help="What was being done when it went wrong.")],
    error_pattern: Annotated[str | None, typer.Option(help="Text of the error that recurs.")] = None,
    diagnosis: Annotated[str | None, typer.Option(help="Why it went wrong.")] = None,
    fix: Annotated[str | None, typer.Option(help="What helped.")] = None,
    category: Annotated[
        str | None,
        typer.Option(
            autocompletion=lambda: LEARNING_CATEGORIES,
            metavar="|".join(LEARNING_CATEGORIES),
            help="What kind of problem it was. Default: general.",
        ),
    ] = None,
    options: NoteOptions,
    as_json: AsJson = False,
) -> None:
    """Save what went wrong, why, and what helped."""
    _save(
        ctx,
        "learning",
        None,
        as_json,
        trigger=trigger,
        error_pattern=error_pattern,
        diagnosis=diagnosis,
        fix=fix,
        category=category,
        **options,
    )


outcomes = typer.Typer(no_args_is_help=True, help="Record the outcome of a learning.")


@outcomes.callback()
def _outcomes() -> None:
    """Do nothing: without a callback, Typer would drop the name of a single command."""


@outcomes.command()
def outcome(
    ctx: typer.Context,
    entry: EntryName,
    namespace: KeyNamespace = None,
    success: Annotated[bool, typer.Option("--success", help="Applying it helped.")] = False,
    failure: Annotated[bool, typer.Option("--failure", help="Applying it did not help.")] = False,
    as_json: AsJson = False,
) -> None:
    """Record whether applying a learning worked, which adjusts its confidence."""
    if success == failure:
        raise typer.BadParameter("give exactly one of --success and --failure")
    with connect(ctx) as client:
        result = client.outcome(entry_id_of(client, entry, namespace), success)
    show(result, [acknowledgement(result)], as_json)


def read_content(text: str) -> str:
    """Return the argument, or for `-` stdin without the line break that `echo` adds."""
    if text != "-":
        return text
    try:
        read = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
        if len(read) > MAX_STDIN_BYTES:
            raise TooLarge(f"The text on stdin is longer than {MAX_STDIN_BYTES:,} bytes.")
        return read.decode().removesuffix("\n")
    except OSError as error:
        raise AgentctxError(
            f"The text cannot be read from stdin: {error.strerror}.",
            hint="Pass the text on stdin or as the argument.",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The text on stdin is not UTF-8 (byte {error.start}).",
            hint="Convert it, for example with iconv.",
        ) from error


def _save(
    ctx: typer.Context, collection: str, content: str | None, as_json: bool, **fields: Unpack[SaveFields]
) -> None:
    is_awaited = bool(fields.get("wait"))
    fields["wait"] = "embedded" if is_awaited else None
    with connect(ctx, timeout_s=WAITING_TIMEOUT_S if is_awaited else TIMEOUT_S) as client:
        if sources := fields.get("derived_from"):
            fields["derived_from"] = [entry_id_of(client, each, fields.get("namespace")) for each in sources]
        result = client.save(collection, content, **fields)
        acknowledge(client, result, is_awaited=is_awaited, as_json=as_json)
    if not as_json:
        note_namespace(fields["namespace"])


def acknowledge(client: Client, result: SaveResult, *, is_awaited: bool, as_json: bool) -> None:
    """Print what was saved; with `is_awaited` only once it is embedded or the wait has failed.

    Raises:
        AgentctxError: the wait failed.
    """
    try:
        if is_awaited:
            result = wait_until_searchable(client, result)
    finally:
        show(result, [acknowledgement(result)], as_json)
        if result.redacted:
            print_note(f"redacted before saving: {', '.join(result.redacted)}")
        if result.flags:
            print_note(f"looks like instructions to an LLM: {', '.join(result.flags)}")
        if result.quarantined:
            print_note(f"in quarantine: no answer contains it until `agentctx release {result.id}`")
        if result.superseded_by:
            print_note(f"no answer contains it: it is superseded by {', '.join(result.superseded_by)}")


def note_namespace(namespace: str) -> None:
    """Note where entries are saved, unless it is where every command looks."""
    if namespace != DEFAULT_NAMESPACE:
        print_note(f"saved in {readable(namespace)}")


def acknowledgement(result: SaveResult) -> str:
    """Return one line about a save: what happened, id, version, and the state of its embedding."""
    verb = "saved" if result.changed else "unchanged"
    return f"{verb}  {result.id}  version {result.version}  embedding {result.embedding}"


def wait_until_searchable(
    client: Client,
    result: SaveResult,
    *,
    limit_s: float = EMBEDDED_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> SaveResult:
    """Return the result once no job of the entry is pending; the daemon's own wait ends far earlier.

    Raises:
        DeadlineExceeded: a job is still pending after `limit_s` seconds.
        NotFound: the entry was forgotten meanwhile.
    """
    deadline = clock() + limit_s
    while result.embedding == "pending":
        result = replace(result, embedding=client.get(result.id).embedding)
        if result.embedding == "pending":
            if clock() >= deadline:
                raise DeadlineExceeded(
                    f"Saved, but still not searchable by meaning after {limit_s:g} s.",
                    hint="Nothing is lost. `agentctx queue status` shows pending and failed jobs.",
                )
            pause(_PAUSE_S)
    return result
