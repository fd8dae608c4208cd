"""`agentctx demo`: start a real daemon, save, search and stop it, checking every step."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from agentctx.cli.layout import columns, one_line, printable, truncate
from agentctx.cli.output import line_width, paint, print_error, print_line
from agentctx.cli.queue import drain_queue
from agentctx.cli.status import status_lines
from agentctx.cli.termination import end_on_termination
from agentctx.errors import AgentctxError, DeadlineExceeded, ProviderFailed

if TYPE_CHECKING:
    from agentctx.cli.demo_daemon import DemoDaemon
    from agentctx.cli.demo_memories import DemoQuestion
    from agentctx.client.sync_client import Client
    from agentctx.wire import Passage, SaveResult

T = TypeVar("T")
Saved = Mapping[str, "SaveResult"]
"""The acknowledgements by memory name."""

BLOCK_HEADING = "## Semantic Context (RAG)"
EMBED_TIMEOUT_S = 180.0
"""The very first start builds the embedded model; later ones take a fraction of a second."""
_POLL_S = 0.1
_INDENT = "   "


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the folder with database and log.")] = False,
) -> None:
    """Show every feature in a few seconds, with a daemon in a temporary folder."""
    with end_on_termination():
        folder = Path(tempfile.mkdtemp(prefix="agentctx-demo-"))
        try:
            run_demo(folder)
        finally:
            if not keep:
                shutil.rmtree(folder)
    _say(f"kept     {folder}" if keep else f"removed  {folder}")


def run_demo(folder: Path, command: Sequence[str] | None = None) -> None:
    """Run all steps against a daemon in `folder`. Exits 1 if a step fails or gives an unexpected answer."""
    from agentctx.cli.demo_daemon import DemoDaemon

    with DemoDaemon(folder, command) as daemon:
        try:
            _tour(daemon, folder)
        except AgentctxError as error:
            sys.stdout.flush()
            print_error(error)
            print(f"\nThe end of the daemon's log:\n{printable(daemon.log_tail())}", file=sys.stderr)
            raise typer.Exit(1) from error


def _tour(daemon: DemoDaemon, folder: Path) -> None:
    from agentctx.cli.demo_memories import BY_WORD, FOR_AN_LLM, IN_OTHER_WORDS, MEMORIES
    from agentctx.client.sync_client import Client

    with Client(daemon.socket) as client:
        _head(1, "Start a daemon in a folder of its own")
        _say(f"folder   {folder}")
        _, elapsed_s = _time(lambda: daemon.wait_ready(client))
        _say(f"ready    pid {daemon.pid}, after {elapsed_s:.2f} s")
        _head(2, f"Save {len(MEMORIES)} memories of a small team; each is on disk when it is acknowledged")
        saved = _save_all(client)
        _head(3, "Find them by keyword at once: no need to wait for the model")
        for question in BY_WORD:
            reply, elapsed_s = _time(partial(client.search, question.text, limit=3))
            _check_answer(question, reply.results[:1], saved)
            _say(f"“{question.text}”  {question.answer}  {_ms(elapsed_s)}")
        _head(4, "Let the background queue embed them")
        _drain(client)
        _head(5, "Ask in other words; relevance is the chance that a passage answers")
        for question in IN_OTHER_WORDS:
            _ask(client, question, saved)
        _head(6, "The block an LLM call would get")
        _show_block(client, FOR_AN_LLM, saved)
        _head(7, "The daemon's status")
        for line in status_lines(client.status()):
            _say(line)
    _head(8, "Stop")
    code, elapsed_s = _time(daemon.stop)
    _check(code == 0, f"The daemon ended with exit code {code} after SIGTERM.")
    _check(not daemon.socket.exists(), f"The daemon left its socket behind: {daemon.socket}.")
    _say(f"SIGTERM  exit code {code} after {elapsed_s:.2f} s, socket removed")


def _save_all(client: Client) -> Saved:
    """Save each memory, then the first one again, which must not change anything."""
    from agentctx.cli.demo_memories import MEMORIES

    saved: dict[str, SaveResult] = {}
    rows = []
    for name, memory in MEMORIES.items():
        save = partial(client.save, memory.collection, memory.content, **memory.fields)
        saved[name], elapsed_s = _time(save)
        rows.append((_ms(elapsed_s), memory.collection, name, f"embedding {saved[name].embedding}"))
    for line in columns(rows, right={0}):
        _say(line)
    name, memory = next(iter(MEMORIES.items()))
    again = client.save(memory.collection, memory.content, **memory.fields)
    _check(again.id == saved[name].id and not again.changed, f"Saving {name} again changed it.")
    _say(f"{name} saved once more: nothing changed, still version {again.version}")
    return saved


def wait_for_model(client: Client) -> None:
    """Wait until the model answers and relevance is calibrated; if it cannot be built, say so at once."""
    deadline = time.monotonic() + EMBED_TIMEOUT_S
    while time.monotonic() < deadline:
        provider = client.status().provider
        if provider.state == "ok" and provider.calibration != "pending":
            return
        if (provider.reason or "").startswith(ProviderFailed.code):
            raise AgentctxError(f"Search by meaning is unavailable: {provider.reason}")
        time.sleep(_POLL_S)


def _drain(client: Client) -> None:
    wait_for_model(client)
    draining = partial(drain_queue, client, EMBED_TIMEOUT_S, lambda progress: _say(str(progress)))
    queue, elapsed_s = _time(draining)
    if queue.pending:
        raise DeadlineExceeded(f"{queue.pending} embeddings are still pending after {EMBED_TIMEOUT_S:g} s.")
    _check(queue.buried == 0, f"{queue.buried} embeddings were buried; `agentctx queue status` says why.")
    _say(f"0 left after {elapsed_s:.2f} s")


def _ask(client: Client, question: DemoQuestion, saved: Saved) -> None:
    reply, elapsed_s = _time(partial(client.search, question.text, limit=3))
    _check(reply.degraded is None, f"The answer did without vector search: {reply.degraded}.")
    _check_answer(question, reply.results[:1], saved)
    _say(f"{paint(question.text, 'bold')}  {_ms(elapsed_s)}")
    rows = [
        (f"relevance {each.relevance:.2f}", each.collection, one_line(each.content, None))
        for each in reply.results
    ]
    limit = (line_width() or 100) - len(_INDENT)
    first, *others = (truncate(line, limit) for line in columns(rows))
    for line in (paint(first, "green"), *(paint(other, "dim") for other in others)):
        _say(line)


def _show_block(client: Client, question: DemoQuestion, saved: Saved) -> None:
    reply, elapsed_s = _time(partial(client.context, question.text, limit=3))
    _check_answer(question, reply.results, saved)
    _check(reply.block.startswith(BLOCK_HEADING), f"The block does not begin with {BLOCK_HEADING!r}.")
    _say(f"{paint(question.text, 'bold')}  {_ms(elapsed_s)}, {reply.tokens} tokens")
    for line in printable(reply.block).rstrip("\n").split("\n"):
        _say(f"{paint('│', 'dim')} {line}")


def _check_answer(question: DemoQuestion, passages: Sequence[Passage], saved: Saved) -> None:
    """Check that one of the passages is from the expected memory."""
    if saved[question.answer].id not in {passage.id for passage in passages}:
        instead = f"{passages[0].source_id} came first" if passages else "nothing was found"
        raise AgentctxError(f"“{question.text}” should find {question.answer}, but {instead}.")


def _time(action: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = action()
    return result, time.perf_counter() - started


def _ms(elapsed_s: float) -> str:
    return f"{elapsed_s * 1000:.1f} ms"


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AgentctxError(otherwise)


def _head(number: int, title: str) -> None:
    print_line()
    print_line(paint(f"{number}. {title}", "bold", "cyan"))


def _say(line: str) -> None:
    print_line(f"{_INDENT}{line}".rstrip())
