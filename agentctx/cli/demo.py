"""`agentctx demo`: start a real daemon, save, search and stop it, checking every step."""

from __future__ import annotations

import shutil
import statistics
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
from agentctx.cli.status import status_lines
from agentctx.cli.termination import end_on_termination
from agentctx.errors import AgentctxError, DeadlineExceeded

if TYPE_CHECKING:
    from agentctx.cli.demo_daemon import DemoDaemon
    from agentctx.cli.demo_memories import DemoMemory, DemoQuestion
    from agentctx.client.sync_client import Client
    from agentctx.wire import Passage, SaveResult

T = TypeVar("T")
Saved = Mapping[str, "SaveResult"]
"""The acknowledgements by memory name."""

BLOCK_HEADING = "## Semantic Context (RAG)"
EMBED_TIMEOUT_S = 180.0
"""The very first start builds the embedded model; later ones take a fraction of a second."""
_POLL_S = 0.02
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
    """Run all steps against a daemon in `folder`. Exits 1 if a step fails."""
    from agentctx.cli.demo_daemon import DemoDaemon

    with DemoDaemon(folder, command) as daemon:
        try:
            tour(daemon, folder)
        except AgentctxError as error:
            sys.stdout.flush()
            print_error(error)
            print(f"\nThe end of the daemon's log:\n{printable(daemon.log_tail())}", file=sys.stderr)
            raise typer.Exit(1) from error


def tour(daemon: DemoDaemon, folder: Path) -> None:
    """Run the steps in order.

    Raises:
        AgentctxError: a step failed or gave an unexpected answer.
    """
    from agentctx.cli.demo_memories import BY_MEANING, BY_WORD, FOR_AN_LLM, MEMORIES
    from agentctx.client.sync_client import Client

    with Client(daemon.socket) as client:
        _head(1, "Start a daemon in a folder of its own")
        start(daemon, client, folder)
        _head(2, f"Save {len(MEMORIES)} memories of a small team; each is on disk when it is acknowledged")
        saved = save_all(client, MEMORIES)
        _head(3, "Find them by keyword at once: no need to wait for the model")
        search_by_word(client, BY_WORD, saved)
        _head(4, "Let the background queue embed them")
        drain(client)
        _head(5, "Find them by meaning: no word of these questions is in the memories")
        search_by_meaning(client, BY_MEANING, saved)
        _head(6, "The block an LLM call would get")
        show_block(client, FOR_AN_LLM, saved)
        _head(7, "The daemon's status")
        for line in status_lines(client.status()):
            _say(line)
    _head(8, "Stop")
    stop(daemon)


def start(daemon: DemoDaemon, client: Client, folder: Path) -> None:
    _say(f"folder   {folder}")
    _say(f"command  {' '.join(['python', *daemon.command[1:]])}")
    _, elapsed_s = _time(lambda: daemon.wait_ready(client))
    _say(f"ready    pid {daemon.pid}, after {elapsed_s:.2f} s")


def save_all(client: Client, memories: Mapping[str, DemoMemory]) -> Saved:
    """Save each memory, then the first one again, which must not change anything."""
    saved: dict[str, SaveResult] = {}
    rows: list[tuple[str, ...]] = []
    times_ms: list[float] = []
    for name, memory in memories.items():
        saved[name], elapsed_s = _time(partial(_save, client, memory))
        times_ms.append(elapsed_s * 1000)
        rows.append((_ms(elapsed_s), memory.collection, name, f"embedding {saved[name].embedding}"))
    for line in columns(rows, right={0}):
        _say(line)
    _say()
    _say(f"{len(saved)} saved, median {statistics.median(times_ms):.1f} ms each")
    _update_memory(client, *next(iter(memories.items())), saved)
    return saved


def _save(client: Client, memory: DemoMemory) -> SaveResult:
    return client.save(memory.collection, memory.content, **memory.fields)


def _update_memory(client: Client, name: str, memory: DemoMemory, saved: Saved) -> None:
    again = _save(client, memory)
    _check(again.id == saved[name].id and not again.changed, f"Saving {name} again changed it.")
    _say(f"{name} saved once more: nothing changed, still version {again.version}")


def search_by_word(client: Client, questions: Sequence[DemoQuestion], saved: Saved) -> None:
    rows: list[tuple[str, ...]] = []
    for question in questions:
        reply, elapsed_s = _time(partial(client.search, question.text, limit=3))
        hit = _expected_hit(question, reply.results, saved)
        rows.append((f"“{question.text}”", hit.collection, question.answer, _ms(elapsed_s)))
    for line in columns(rows, right={3}):
        _say(line)


def drain(client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Wait until no embedding is pending, printing each new count."""
    started = clock()
    shown: int | None = None
    while (queue := client.queue()).pending:
        if clock() - started > EMBED_TIMEOUT_S:
            raise DeadlineExceeded(
                f"{queue.pending} embeddings are still pending after {EMBED_TIMEOUT_S:g} s."
            )
        if queue.pending != shown:
            shown = queue.pending
            _say(f"{shown:3} pending  {_provider_state(client)}")
        time.sleep(_POLL_S)
    _check(queue.buried == 0, f"{queue.buried} embeddings were buried; `agentctx queue status` says why.")
    _say(f"  0 pending  after {clock() - started:.2f} s")


def search_by_meaning(client: Client, questions: Sequence[DemoQuestion], saved: Saved) -> None:
    for question in questions:
        reply, elapsed_s = _time(partial(client.search, question.text, limit=3, order="distance"))
        _check(reply.degraded is None, f"The answer did without vector search: {reply.degraded}.")
        hit = _expected_hit(question, reply.results, saved)
        _check(hit.distance is not None, f"The answer to “{question.text}” has no distance.")
        if question is not questions[0]:
            _say()
        _say(f"{paint(question.text, 'bold')}  {_ms(elapsed_s)}")
        for line in _result_lines(reply.results):
            _say(line)


def show_block(client: Client, question: DemoQuestion, saved: Saved) -> None:
    reply, elapsed_s = _time(partial(client.context, question.text, limit=3))
    _expected(question, reply.results, saved)
    _check(reply.block.startswith(BLOCK_HEADING), f"The block does not begin with {BLOCK_HEADING!r}.")
    _say(f"{paint(question.text, 'bold')}  {_ms(elapsed_s)}, {reply.tokens} tokens")
    _say()
    for line in printable(reply.block).rstrip("\n").split("\n"):
        print_line(f"{_INDENT}{paint('│', 'dim')} {line}".rstrip())


def stop(daemon: DemoDaemon) -> None:
    code, elapsed_s = _time(daemon.stop)
    _check(code == 0, f"The daemon ended with exit code {code} after SIGTERM.")
    _check(not daemon.socket.exists(), f"The daemon left its socket behind: {daemon.socket}.")
    _say(f"SIGTERM  exit code {code} after {elapsed_s:.2f} s, socket removed")


def _expected_hit(question: DemoQuestion, passages: Sequence[Passage], saved: Saved) -> Passage:
    """Return the first passage, which must belong to the expected memory."""
    found = next(iter(passages), None)
    if found is None or found.id != saved[question.answer].id:
        instead = f"{found.source_id} came first" if found else "nothing was found"
        raise AgentctxError(f"“{question.text}” should find {question.answer}, but {instead}.")
    return found


def _expected(question: DemoQuestion, passages: Sequence[Passage], saved: Saved) -> None:
    ids = {passage.id for passage in passages}
    _check(saved[question.answer].id in ids, f"“{question.text}” should return {question.answer}.")


def _result_lines(passages: Sequence[Passage]) -> list[str]:
    rows = [
        (_distance(each), f"relevance {each.relevance:.2f}", each.collection, one_line(each.content, None))
        for each in passages
    ]
    limit = (line_width() or 100) - len(_INDENT)
    first, *others = (truncate(line, limit) for line in columns(rows))
    return [paint(first, "green"), *(paint(line, "dim") for line in others)]


def _distance(passage: Passage) -> str:
    return "no vector" if passage.distance is None else f"distance {passage.distance:.3f}"


def _provider_state(client: Client) -> str:
    provider = client.status().provider
    reason = f": {provider.reason}" if provider.reason else ""
    return f"provider {provider.id} {provider.state}{reason}"


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


def _say(line: str = "") -> None:
    print_line(f"{_INDENT}{line}".rstrip())
