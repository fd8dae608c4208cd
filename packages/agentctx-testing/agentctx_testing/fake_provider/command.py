"""`agentctx dev …`: tools for developers and testers."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.layout import columns
from agentctx.cli.output import paint, print_line

if TYPE_CHECKING:
    from agentctx_testing.fake_provider.serving import FakeProviderServer

app = typer.Typer(no_args_is_help=True, help="Tools for developing and testing.")


@app.callback()
def _group() -> None:
    """Do nothing: without a callback, Typer would drop the name of a single command."""


@app.command("fake-provider")
def fake_provider(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    dimension: Annotated[
        int | None,
        typer.Option(min=1, max=4_096, help="Length of all vectors. Default: that of the real models."),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="A fault: a status or a kind, and when, such as 429,hint=seconds,after_s=2,request=1. "
            "Repeatable.",
        ),
    ] = None,
) -> None:
    """Run a server that speaks the formats of embedding, rerank and chat providers, until Ctrl-C.

    Its vectors need no model: texts that share words are close to each other. Chats are answered with an echo
    or with configured answers. Any key is accepted.
    """
    from agentctx_testing.fake_provider.faults import HttpFault
    from agentctx_testing.fake_provider.serving import FakeProviderServer

    faults = [HttpFault.parse(spec) for spec in fault or ()]
    server = FakeProviderServer(host=host, port=port, dimension=dimension, faults=faults)
    asyncio.run(serve_until_interrupted(server))


async def serve_until_interrupted(server: FakeProviderServer) -> None:
    """Announce and serve until SIGTERM or Ctrl-C. Raises `InvalidInput` if the address is taken."""
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    await server.start()
    try:
        for line in announcement(server):
            print_line(line)
        sys.stdout.flush()  # the parent process waits for these lines
        await interrupted.wait()
    finally:
        await server.aclose()


def announcement(server: FakeProviderServer) -> list[str]:
    """Return the base URLs, an example config for each provider, and the commands that control the server."""
    from agentctx_testing.fake_provider.app import ALL_DIALECTS, DIALECTS

    addresses = [(name, server.base_url(name)) for name in ALL_DIALECTS]
    lines = [
        f"listening on {server.url}; press Ctrl-C to stop",
        "",
        paint("Base URLs", "bold"),
        *columns(addresses),
    ]
    lines += ["", paint("Configs", "bold"), "Put one of these into agentctx.toml."]
    for dialect in DIALECTS.values():
        lines += [
            "",
            "[embedding]",
            f'provider = "{dialect.provider}"',
            f'model = "{dialect.model}"',
            f'base_url = "{server.base_url(dialect.provider)}"',
        ]
        lines += ['api_key = "any"'] if dialect.keys else []
    example = """'{"faults": [{"kind": "status", "status": 429, "hint": "seconds", "request": 1}]}'"""
    answer = """'{"answers": [{"text": "Hello.", "calls": [{"name": "now", "arguments": {}}]}]}'"""
    return [
        *lines,
        "",
        paint("Steering", "bold"),
        f"curl {server.url}/__requests",
        f"curl {server.url}/__script -d {example}",
        f"curl {server.url}/__script -d {answer}",
        f"curl -X POST {server.url}/__release",
        f"curl -X POST {server.url}/__reset",
    ]
