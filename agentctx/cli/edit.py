"""`agentctx edit`: change fields of an entry, or its content in an editor."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from agentctx.cli.connection import TIMEOUT_S, WAITING_TIMEOUT_S, connect, entry_id_of
from agentctx.cli.options import CATEGORIES, AsJson, EntryName, KeyNamespace, Source, Ttl, Wait, with_options
from agentctx.cli.output import print_note
from agentctx.cli.save import acknowledge, read_content
from agentctx.cli.termination import handling
from agentctx.client.options import EditFields
from agentctx.errors import AgentctxError, InvalidInput, VersionConflict
from agentctx.wire import SaveResult

_FALLBACK = "vi"


def field_options(
    *,
    content: Annotated[
        str | None, typer.Option(metavar="TEXT|-", help="The new text, or - to read it from stdin.")
    ] = None,
    category: Annotated[
        str | None, typer.Option(autocompletion=lambda: CATEGORIES, help="The new category.")
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="The new tags; repeat for more, '' for none."),
    ] = None,
    cues: Annotated[
        list[str] | None,
        typer.Option("--cue", metavar="TEXT", help="The new cues; repeat for more, '' for none."),
    ] = None,
    source: Source = None,
    supersedes: Annotated[
        list[str] | None,
        typer.Option(metavar="ID|KEY", help="What it supersedes; repeat for more, '' for nothing."),
    ] = None,
    resolves: Annotated[
        list[str] | None,
        typer.Option(metavar="ID|KEY", help="What it resolves; repeat for more, '' for nothing."),
    ] = None,
    trigger: Annotated[str | None, typer.Option(help="Of a learning: what was being done.")] = None,
    error_pattern: Annotated[str | None, typer.Option(help="Of a learning: text of the error.")] = None,
    diagnosis: Annotated[str | None, typer.Option(help="Of a learning: why it went wrong.")] = None,
    fix: Annotated[str | None, typer.Option(help="Of a learning: what helped.")] = None,
    ttl: Ttl = None,
) -> None:
    """Declare the options that change a field, with the names from `EditFields`."""


@with_options(field_options)
def edit(
    ctx: typer.Context,
    entry: EntryName,
    *,
    namespace: KeyNamespace = None,
    options: EditFields,
    if_version: Annotated[
        int | None, typer.Option(min=1, help="Change it only if this is the live version.")
    ] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Change the given fields of an entry. Without any, open its text in $VISUAL or $EDITOR."""
    changes: EditFields = {name: value for name, value in options.items() if value is not None}  # type: ignore[assignment]  # the names match EditFields
    if content := changes.get("content"):
        changes["content"] = read_content(content)
    for name in ("tags", "cues", "supersedes", "resolves"):
        if name in changes:
            changes[name] = [each for each in changes[name] or () if each]
    guards: EditFields = {"if_version": if_version, "wait": "embedded" if wait else None}
    with connect(ctx) as client:
        entry_id = entry_id_of(client, entry, namespace)
    if changes:
        result = _change(ctx, entry_id, {**changes, **guards})
    elif sys.stdin.isatty() and sys.stdout.isatty():
        result = _change_in_editor(ctx, entry_id, guards)
    else:
        raise typer.BadParameter("nothing to change: pass for example --content (an editor needs a terminal)")
    with connect(ctx) as client:
        acknowledge(client, result, is_awaited=wait, as_json=as_json)


def _change(ctx: typer.Context, entry_id: str, changes: EditFields) -> SaveResult:
    timeout_s = WAITING_TIMEOUT_S if changes.get("wait") else TIMEOUT_S
    with connect(ctx, timeout_s=timeout_s) as client:
        return client.edit(entry_id, **changes)


def _change_in_editor(ctx: typer.Context, entry_id: str, guards: EditFields) -> SaveResult:
    """Edit the content, sending the version that was read so that a concurrent change is not lost."""
    with connect(ctx) as client:
        entry = client.get(entry_id)
    if entry.collection == "learning":
        raise InvalidInput(
            "The text of a learning is generated from its fields.",
            hint="Change them with --trigger, --error-pattern, --diagnosis and --fix.",
        )
    if guards.get("if_version") not in {None, entry.version}:
        raise VersionConflict(f"The live version of {entry_id} is {entry.version}.")
    with draft(entry.content) as file:
        edit_file(file)
        text = edited_text(file, entry.content)
        if text == entry.content:
            return SaveResult(id=entry.id, version=entry.version, changed=False, embedding=entry.embedding)
        return _change(ctx, entry.id, {**guards, "content": text, "if_version": entry.version})


@contextmanager
def draft(text: str) -> Iterator[Path]:
    """Yield a private file with the text, removed at the end unless the block fails with the text changed:
    then the file stays and its path is printed, so that no work is lost.
    """
    descriptor, name = tempfile.mkstemp(prefix="agentctx-edit-", suffix=".md")
    path, original = Path(name), text.encode()
    with os.fdopen(descriptor, "wb") as file:
        file.write(original)
    is_done = False
    try:
        yield path
        is_done = True
    finally:
        if is_done or not path.exists() or path.read_bytes() == original:
            path.unlink(missing_ok=True)
        else:
            print_note(f"your text is kept in {path}")


def edit_file(path: Path, env: Mapping[str, str] = os.environ) -> None:
    """Run $VISUAL, else $EDITOR, else vi on the file and wait for it to exit.

    Raises:
        InvalidInput: the variable is not a valid command.
        AgentctxError: the editor cannot be started or failed.
    """
    command = _editor_command(env)
    try:
        # Leave Ctrl-C to the editor, by a handler, which the editor does not inherit, unlike SIG_IGN.
        with handling({signal.SIGINT: lambda *_: None}):
            code = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603 - the user's own choice
    except OSError as error:
        raise AgentctxError(
            f"The editor {command[0]!r} cannot be started: {error.strerror}.",
            hint="Set another one in $VISUAL or $EDITOR, or use --content.",
        ) from error
    if code != 0:
        raise AgentctxError(
            f"The editor {command[0]!r} exited with code {code}; nothing was saved.",
            hint="Run `agentctx edit` again.",
        )


def _editor_command(env: Mapping[str, str]) -> list[str]:
    """Return the words of $VISUAL, else $EDITOR, else vi; a blank variable counts as unset."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(env.get(name, ""))
        except ValueError as error:
            raise InvalidInput(
                f"${name} is not a valid command: {str(error).lower()}.", hint=f"Close the quotes of ${name}."
            ) from error
        if words:
            return words
    return [_FALLBACK]


def edited_text(path: Path, original: str) -> str:
    """Return the text of the file, without the line break that editors append.

    Raises:
        InvalidInput: the file is gone or not UTF-8.
    """
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError as error:
        raise InvalidInput("The editor removed the file; nothing was saved.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The edited text is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8 in the editor."
        ) from error
    return text if original.endswith("\n") else text.removesuffix("\n")
