"""The daemon's life: open in order, serve, stop in reverse. A background task that dies ends it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import structlog

from agentctx import __version__
from agentctx.config.load import load_settings
from agentctx.config.schema import LogSettings, Settings
from agentctx.daemon.build import Core, Places, open_core
from agentctx.daemon.listen import bind_socket, remove_socket, socket_inode
from agentctx.daemon.lock import acquire_lock, data_lock_path, socket_lock_path
from agentctx.daemon.logs import configure_logging
from agentctx.daemon.start_record import StartRecorder, recorded_start
from agentctx.embedding_queue.maintenance import maintain
from agentctx.errors import AgentctxError, ConfigInvalid, SchemaTooNew, UnknownProvider
from agentctx.server.app import create_app
from agentctx.server.http_server import HttpServer
from agentctx.telemetry.loop_lag import watch_loop

log = structlog.get_logger("agentctx.daemon")

EXIT_FAILED = 1
EXIT_CONFIG = 78
"""EX_CONFIG: starting again without a change will not help, so systemd should not try."""


def serve(config: Path | None = None, data_dir: Path | None = None, socket: Path | None = None) -> int:
    """Run a daemon until SIGTERM or SIGINT; returns the exit code."""
    configure_logging(LogSettings())
    try:
        settings = load_settings(config, {"data_dir": data_dir, "socket": socket})
        configure_logging(settings.log)
        _run_loop(settings)
    except AgentctxError as error:
        # Told what to do, nobody needs the traceback.
        log.error("cannot_start", code=error.code, problem=error.message, hint=error.hint)  # noqa: TRY400
        needs_change = isinstance(error, ConfigInvalid | SchemaTooNew | UnknownProvider)
        return EXIT_CONFIG if needs_change else EXIT_FAILED
    except ExceptionGroup as group:
        log.critical("daemon_died", exc_info=group)
        return EXIT_FAILED
    except asyncio.CancelledError:
        log.warning("stopped_at_once")
    return 0


async def run(settings: Settings, *, stop: asyncio.Event) -> None:
    """Serve until `stop` is set.

    Raises:
        AlreadyRunning: another daemon has the data or the socket; names its pid.
        AgentctxError: as `build.open_core` and `listen.bind_socket`.
        ExceptionGroup: a background task died.
    """
    places = Places.of(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(acquire_lock(data_lock_path(places.data_dir)))
        record = stack.enter_context(recorded_start(places.data_dir, places.socket))
        stack.enter_context(acquire_lock(socket_lock_path(places.socket)))
        state = _State()
        core = await stack.enter_async_context(open_core(settings, places, not_ready=state.not_ready))
        listening = bind_socket(
            places.socket, int(settings.server.socket_mode, 8), settings.server.socket_group
        )
        stack.callback(remove_socket, places.socket, socket_inode(places.socket))
        http = HttpServer(create_app(core.service, settings, core.telemetry), [listening], settings.server)
        await _serve(core, http, settings, state, stop, record, str(places.socket))
    log.info("stopped")


class _State:
    """Whether requests can be served."""

    def __init__(self) -> None:
        self.reason: str | None = "the daemon is starting"

    def not_ready(self) -> str | None:
        return self.reason


async def _serve(
    core: Core,
    http: HttpServer,
    settings: Settings,
    state: _State,
    stop: asyncio.Event,
    record: StartRecorder,
    socket: str,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(http.serve(), name="http")
        background = [
            tasks.create_task(_sweep(core, settings), name="maintenance"),
            tasks.create_task(watch_loop(core.telemetry.lagged), name="loop lag"),
        ]
        if core.queue and core.keeper:
            background.append(tasks.create_task(core.keeper.run(), name="space keeper"))
            tasks.create_task(core.queue.run(), name="embedding queue")
        await http.started.wait()
        state.reason = None
        # What the imports made stays; walking it in every collection stalls requests for milliseconds.
        gc.collect()
        gc.freeze()
        record.ready()
        log.info("ready", version=__version__, pid=os.getpid(), socket=socket)
        await stop.wait()
        state.reason = "the daemon is stopping"
        log.info("stopping")
        await http.stop()
        await serving
        if core.queue:
            await core.queue.stop(settings.server.shutdown_timeout_s)
        for task in background:
            task.cancel()


async def _sweep(core: Core, settings: Settings) -> None:
    await maintain(core.storage, interval_s=settings.storage.sweep_interval_s)


def _run_loop(settings: Settings) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_until_signalled(settings))


async def _until_signalled(settings: Settings) -> None:
    stop = asyncio.Event()
    with _signals(stop):
        await run(settings, stop=stop)


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """The first SIGTERM or SIGINT drains, the second ends at once: what was acknowledged is on disk."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def signalled() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop
