"""`agentctx wrap`: a program whose LLM calls go through the proxy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from agentctx.cli.connection import connect
from agentctx.cli.wrapped_programs import wrapped
from agentctx.errors import ConfigInvalid
from agentctx.wire import ProxyStatus

_CUSTOM_HEADERS = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
_EMPTY: Mapping[str, str] = MappingProxyType({})
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def wrap(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The program, after --.")],
    session: Annotated[str | None, typer.Option(help="Session the calls belong to.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who makes them.")] = None,
) -> None:
    """Run a program with its LLM calls going through the proxy: OpenAI, Anthropic, Gemini, Ollama.

    The base-URL variables that the vendors' SDKs read point to the daemon's port on 127.0.0.1; the config
    needs proxy.tcp_port.
    """
    with connect(ctx) as client:
        proxy = client.status().proxy
    if proxy is None:
        raise ConfigInvalid(
            "The daemon has no TCP port for programs that cannot use its socket.",
            hint="Set proxy.tcp_port in its config, for example to 18181, and restart it.",
        )
    token = _token(proxy)
    added = variables(proxy, token, session=session, agent=agent, present=os.environ)
    program = wrapped(command, base_url(proxy, token), _tags(session, agent), os.environ)
    raise typer.Exit(_run(program.command, {**os.environ, **added, **program.variables}))


def variables(
    proxy: ProxyStatus,
    token: str,
    *,
    session: str | None = None,
    agent: str | None = None,
    present: Mapping[str, str] = _EMPTY,
) -> Mapping[str, str]:
    """What the vendors' SDKs read. The token is in the address: not every program can send a header.

    Headers that the `present` environment asks for are kept.
    """
    base = base_url(proxy, token)
    lines = [f"{name}: {value}" for name, value in _tags(session, agent).items()]
    headers = {name: _with_lines(present.get(name, ""), lines) for name in _CUSTOM_HEADERS} if lines else {}
    return {
        "OPENAI_BASE_URL": f"{base}/openai/v1",
        "ANTHROPIC_BASE_URL": f"{base}/anthropic",
        "GOOGLE_GEMINI_BASE_URL": f"{base}/gemini",
        "OLLAMA_HOST": f"{base}/ollama",
        **headers,
    }


def base_url(proxy: ProxyStatus, token: str) -> str:
    """Where the proxy has a path for each vendor, for programs that cannot send the token in a header."""
    return f"http://127.0.0.1:{proxy.port}/t/{token}/proxy"


def _tags(session: str | None, agent: str | None) -> dict[str, str]:
    tags = {"X-Agentctx-Session": session, "X-Agentctx-Agent": agent}
    return {name: value for name, value in tags.items() if value}


def _with_lines(present: str, lines: Sequence[str]) -> str:
    """Headers as the SDKs read them: one on each line."""
    return "\n".join([*present.splitlines(), *lines])


def _token(proxy: ProxyStatus) -> str:
    try:
        return Path(proxy.token_file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigInvalid(
            f"The token of the proxy's port cannot be read ({error.strerror}).",
            hint=f"It is in {proxy.token_file}, which only the daemon's user can read.",
        ) from error


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Become the program: its signals, its terminal and its exit code are its own."""
    try:
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - running it is what was asked for
    except FileNotFoundError:
        typer.echo(f"agentctx: program {command[0]!r} not found", err=True)
        return _NOT_FOUND
    except OSError as error:
        typer.echo(f"agentctx: {command[0]} cannot be run ({error.strerror})", err=True)
        return _NOT_EXECUTABLE
