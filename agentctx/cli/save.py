"""`agentctx save …`: one command per collection."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from agentctx.cli.connection import TIMEOUT_S, WAITING_TIMEOUT_S, connect
from agentctx.cli.options import (
    KNOWLEDGE_CATEGORIES,
    LEARNING_CATEGORIES,
    AsJson,
    Session,
    Text,
    complete_knowledge_category,
    complete_learning_category,
    save_options,
    taking,
)
from agentctx.cli.output import note, put, put_json
from agentctx.client.options import NoteOptions, SaveFields
from agentctx.errors import AgentctxError, DeadlineExceeded, InvalidInput
from agentctx.wire import SaveResult

if TYPE_CHECKING:
    from agentctx.client.sync_client import Client


app = typer.Typer(no_args_is_help=True, help="Save an entry; it is on disk when the command returns.")
EMBEDDED_TIMEOUT_S = 300.0
"""How long `--wait` keeps asking after the daemon has answered a save: the first start builds the model."""
_PAUSE_S = 1.0


@app.command()
@taking(save_options)
def knowledge(
    ctx: typer.Context,
    text: Text,
    *,
    key: Annotated[str, typer.Option(help="Name of it; saving the key again makes a new version.")],
    category: Annotated[
        str,
        typer.Option(
            autocompletion=complete_knowledge_category,
            metavar="|".join(KNOWLEDGE_CATEGORIES),
            help="What kind of knowledge it is.",
        ),
    ] = "fact",
    options: NoteOptions,
    as_json: AsJson = False,
) -> None:
    """What is true until it is replaced."""
    _save(ctx, "knowledge", read_content(text), as_json, key=key, category=category, **options)


@app.command()
@taking(save_options)
def observation(
    ctx: typer.Context, text: Text, *, session: Session, options: NoteOptions, as_json: AsJson = False
) -> None:
    """What was seen or said in a session."""
    _save(ctx, "observation", read_content(text), as_json, session=session, **options)


@app.command()
@taking(save_options)
def reflection(
    ctx: typer.Context, text: Text, *, session: Session, options: NoteOptions, as_json: AsJson = False
) -> None:
    """What was concluded from a session."""
    _save(ctx, "reflection", read_content(text), as_json, session=session, **options)


@app.command()
@taking(save_options)
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
            autocompletion=complete_learning_category,
            metavar="|".join(LEARNING_CATEGORIES),
            help="What kind of problem it was. Default: general.",
        ),
    ] = None,
    options: NoteOptions,
    as_json: AsJson = False,
) -> None:
    """What went wrong, why, and what helped."""
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


def read_content(text: str) -> str:
    """The argument, or stdin for `-`, without the line break that `echo` adds."""
    if text != "-":
        return text
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
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
    timeout_s = WAITING_TIMEOUT_S if fields.get("wait") else TIMEOUT_S
    with connect(ctx, timeout_s=timeout_s) as client:
        result = client.save(collection, content, **fields)
        acknowledge(client, result, is_awaited=bool(fields.get("wait")), as_json=as_json)


def acknowledge(client: Client, result: SaveResult, *, is_awaited: bool, as_json: bool) -> None:
    """Say what was saved; with `is_awaited` as soon as it is embedded, or when waiting for that fails.

    Raises:
        AgentctxError: of the waiting.
    """
    try:
        if is_awaited:
            result = until_embedded(client, result)
    finally:
        if as_json:
            put_json(result)
        else:
            put(acknowledgement(result))
        tell_redacted(result)
        tell_flags(result)


def tell_flags(result: SaveResult) -> None:
    """Say what the text looks like, and what follows."""
    if result.flags:
        note(f"looks like instructions to an LLM: {', '.join(result.flags)}")
    if result.quarantined:
        note(f"in quarantine: no answer holds it until `agentctx release {result.id}`")


def tell_redacted(result: SaveResult) -> None:
    """Say which kinds of secrets are missing in what was stored."""
    if result.redacted:
        note(f"cut out before anything was stored: {', '.join(result.redacted)}")


def acknowledgement(result: SaveResult) -> str:
    """One line about a save: what happened, id, version, and whether it can be found by meaning."""
    verb = "saved" if result.changed else "unchanged"
    return f"{verb}  {result.id}  version {result.version}  embedding {result.embedding}"


def until_embedded(
    client: Client,
    result: SaveResult,
    *,
    limit_s: float = EMBEDDED_TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> SaveResult:
    """The result, as soon as nothing of the entry is pending; the daemon itself gives up waiting far earlier.

    Raises:
        DeadlineExceeded: it is still pending after `limit_s` seconds.
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
