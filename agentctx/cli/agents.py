"""`agentctx mcp` and `agentctx hook`. As the first argument, `agentctx.cli.main` runs them without this."""

from __future__ import annotations

from typing import Annotated

import typer

from agentctx.wire import RememberMode

_Namespace = Annotated[
    str | None, typer.Option(help="Namespace to use. Default: the project of the working directory.")
]
_Socket = Annotated[
    str | None, typer.Option(help="Socket of the daemon. Default: AGENTCTX_SOCKET, else the usual locations.")
]


def mcp(
    ctx: typer.Context,
    socket: _Socket = None,
    namespace: _Namespace = None,
    agent: Annotated[str | None, typer.Option(help="Name of the agent, stored with what it saves.")] = None,
) -> None:
    """Serve the memory to an agent as MCP tools over stdin and stdout."""
    from agentctx.agents.mcp.bridge import main

    given = {"--socket": str(socket or ctx.obj or ""), "--namespace": namespace, "--agent": agent}
    raise typer.Exit(main(_arguments(given)))


def hook(
    ctx: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The client's name for the event.")],
    client: Annotated[str, typer.Option(help="claude-code, codex, gemini, qwen, copilot, opencode, pi, …")],
    socket: _Socket = None,
    namespace: _Namespace = None,
    remember: Annotated[
        RememberMode | None, typer.Option("--remember", help="Save each turn when it ends.")
    ] = None,
) -> None:
    """Answer an agent's hook: its JSON on stdin, context for the prompt on stdout, or nothing."""
    from agentctx.agents.hooks.hook import main

    given = {"--client": client, "--socket": str(socket or ctx.obj or ""), "--namespace": namespace}
    raise typer.Exit(main([event, *_arguments(given), *([f"--remember={remember}"] if remember else [])]))


def _arguments(given: dict[str, str | None]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items() if value]
