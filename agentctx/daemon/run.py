"""The daemon's life cycle: open in order, serve, stop in reverse. It ends if a background task dies."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import socket as sockets
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from starlette.types import ASGIApp

from agentctx import __version__
from agentctx.config.commit import own_commit
from agentctx.config.load import find_config_file, load_settings
from agentctx.config.schema import LogSettings, Settings
from agentctx.daemon.build import Core, DaemonPaths, open_core
from agentctx.daemon.file_watcher import note_served, watch_files
from agentctx.daemon.health import Health
from agentctx.daemon.host.listen import SocketWatcher
from agentctx.daemon.host.lock import acquire_lock, data_lock_path, socket_lock_path
from agentctx.daemon.host.logs import configure_logging
from agentctx.daemon.host.memory_limits import expect_memory
from agentctx.daemon.host.systemd import (
    ActivatedSocket,
    LivenessProbe,
    Systemd,
    keep_alive,
    socket_path,
    take_from_environment,
)
from agentctx.daemon.page_server import Server, page_server
from agentctx.daemon.reload import Reloader
from agentctx.daemon.start_record import StartRecorder
from agentctx.doctor.database_file import missing
from agentctx.embedding.queue.maintenance import keep_doing, keep_tidy, maintain, resume_rebuild
from agentctx.errors import (
    AgentctxError,
    ConfigInvalid,
    DatabaseMissing,
    SchemaForeign,
    SchemaTooNew,
    SchemaTooOld,
    UnknownProvider,
)
from agentctx.llm.proxy.access import read_token
from agentctx.llm.proxy.runs import Runs
from agentctx.llm.proxy.serving import bind_loopback, on_loopback, open_proxy
from agentctx.server.app import create_app
from agentctx.server.http_server import HttpServer
from agentctx.server.mcp import LoopbackApp, McpEndpoint
from agentctx.server.quota_gate import QuotaGate
from agentctx.server.request_context import RequestContext
from agentctx.service.access.control import AccessControl, default_owners
from agentctx.service.backup import FOLDER_NAME
from agentctx.service.process_memory import keep_private, return_freed_memory
from agentctx.service.telemetry.loop_lag import watch_loop
from agentctx.storage.opening import server_of
from agentctx.storage.private_files import make_private, refuse_folder_of_others
from agentctx.storage.quotas import Quotas
from agentctx.telemetry import Telemetry

log = structlog.get_logger("agentctx.daemon")

_STDERR = 2
"""If native code crashes, the names of the running functions go there; there are no core files."""
EXIT_FAILED = 1
EXIT_CONFIG = 78
"""EX_CONFIG: restarting without a change would not help, so systemd should not try."""
_NEEDS_CHANGE = (ConfigInvalid, SchemaForeign, SchemaTooNew, SchemaTooOld, UnknownProvider, DatabaseMissing)
WRITER_TIMEOUT_S = 900.0
"""A repair of a large database may occupy the writer this long; anything longer counts as stuck."""
YOUNG_OBJECTS = 10_000
"""New objects, less the freed ones, after which the garbage collector runs; Python's default is 700."""

SWITCH_S = 0.0005
"""Seconds for which a thread may compute while others wait; Python's .005 would delay short questions."""


def serve(config: Path | None = None, data_dir: Path | None = None, socket: Path | None = None) -> int:
    """Run a daemon until SIGTERM or SIGINT; return the exit code. SIGHUP reloads the configuration."""
    configure_logging(LogSettings())
    faulthandler.enable(_STDERR)
    keep_private()
    return_freed_memory()
    sys.setswitchinterval(SWITCH_S)

    def read() -> Settings:
        return load_settings(config, {"data_dir": data_dir, "socket": socket})

    systemd = Systemd()
    try:
        systemd = take_from_environment()
        settings = read()
        configure_logging(settings.log)
        file = config or find_config_file()
        log.info("starting", version=__version__, commit=own_commit(), config=str(file or "none"))
        if scarce := expect_memory():
            log.warning("little_memory", reason=scarce)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_until_signalled(settings, systemd, read))
    except AgentctxError as error:
        # The hint says what to do; a traceback would add nothing.
        log.error("cannot_start", code=error.code, problem=error.message, hint=error.hint)  # noqa: TRY400
        systemd.failed(error.message)
        if not isinstance(error, _NEEDS_CHANGE):
            return EXIT_FAILED
        systemd.refuse_waiting()
        return EXIT_CONFIG
    except ExceptionGroup as group:
        log.critical("daemon_died", exc_info=group)
        return EXIT_FAILED
    except asyncio.CancelledError:
        log.warning("stopped_at_once")
    return 0


async def run(
    settings: Settings,
    *,
    stop: asyncio.Event,
    systemd: Systemd | None = None,
    reloader: Reloader | None = None,
) -> None:
    """Serve until `stop` is set. `reloader` supplies new settings; `systemd` is notified of state changes.

    Raises:
        AlreadyRunning: another daemon holds the data folder or the socket; the message names its pid.
        DatabaseMissing: the database is gone, was before, or was replaced while it was open.
        AgentctxError: the same errors as `build.open_core` and `listen.bind_socket`.
        ExceptionGroup: a background task died.
    """
    systemd = systemd or Systemd()
    paths = DaemonPaths.of(settings)
    if systemd.listening:
        paths = replace(paths, socket=socket_path(systemd.listening))
    async with AsyncExitStack() as stack:
        # Before the lock, which would create a folder that is missing.
        if server_of(settings) is None and (lost := await asyncio.to_thread(missing, paths.database)):
            raise lost
        refuse_folder_of_others(paths.data_dir)
        stack.enter_context(acquire_lock(data_lock_path(paths.data_dir)))
        record = stack.enter_context(
            StartRecorder(paths.data_dir, paths.socket, is_activated=systemd.listening is not None)
        )
        make_private(paths.data_dir, paths.data_dir / FOLDER_NAME)
        if not systemd.listening:
            stack.enter_context(acquire_lock(socket_lock_path(paths.socket)))
        state = _State()
        core = await stack.enter_async_context(open_core(settings, paths, not_ready=lambda: state.reason))
        socket_file = (
            ActivatedSocket(systemd.listening)
            if systemd.listening
            else SocketWatcher(paths.socket, settings.server)
        )
        listening = socket_file.bind()
        await asyncio.to_thread(note_served, paths.database)
        await core.audit.note_settings("start", settings, core.storage.secret)
        stack.callback(socket_file.remove)
        access = AccessControl(settings.access)
        guard = core.guard(access)
        has_port = settings.proxy.tcp_port != 0
        token = read_token(settings.proxy.token_path(paths.data_dir)) if has_port else ""
        runs = Runs(settings.proxy.tcp_port, key=token.encode() + await core.storage.secret())
        proxy = await stack.enter_async_context(
            open_proxy(
                settings,
                access,
                core.telemetry,
                context=guard(core.questions.context),
                save=guard(core.entries.save),
                on_erased=core.storage.entries.on_erased,
                refusals=core.refusals,
                receipts=core.receipts,
                runs=runs,
            )
        )
        quotas = Quotas(
            settings.quotas,
            unlimited=default_owners(),
            capacity=settings.embedding.queue.capacity,
            refused=core.telemetry.quota_exceeded,
        )
        quota_gate = QuotaGate(quotas, core.storage.usage)
        app = create_app(core, guard, settings, core.telemetry, proxy, quota_gate)
        api_server = HttpServer(app, [listening], settings.server, quotas)
        servers: list[Server] = [api_server, page_server(core, app, settings.server)]
        if has_port:
            served = on_loopback(LoopbackApp(proxy, McpEndpoint(app)), settings.proxy, token, runs)
            servers.append(_on_loopback(served, settings, core.telemetry))
        daemon = _Daemon(
            core=core,
            access=access,
            servers=servers,
            move=api_server.move,
            settings=settings,
            state=state,
            record=record,
            socket_file=socket_file,
            systemd=systemd,
            reloader=reloader or Reloader(lambda: settings),
        )
        await daemon.serve(stop)
    log.info("stopped")


def _on_loopback(served: ASGIApp, settings: Settings, telemetry: Telemetry) -> HttpServer:
    listening = bind_loopback(settings.proxy.tcp_port)
    log.info("proxy_on_loopback", port=settings.proxy.tcp_port)
    # A path may start with the token, so the proxy's body limit applies to all paths.
    most = settings.server.max_proxy_body_bytes
    limits = settings.server.model_copy(update={"max_body_bytes": most})
    return HttpServer(RequestContext(served, telemetry), [listening], limits)


@dataclass
class _State:
    """The reason why requests cannot be served, or None if they can."""

    reason: str | None = "the daemon is starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Daemon:
    """A daemon whose parts are open; serves until it has to stop."""

    core: Core
    access: AccessControl
    servers: Sequence[Server]
    move: Callable[[sockets.socket], Awaitable[None]]
    settings: Settings
    state: _State
    record: StartRecorder
    socket_file: SocketWatcher | ActivatedSocket
    systemd: Systemd
    reloader: Reloader

    async def serve(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            serving = [tasks.create_task(server.serve(), name="http") for server in self.servers]
            background = self._start_background(tasks)
            for server in self.servers:
                await server.started.wait()
            self._become_ready()
            background += self._start_attending(tasks)
            lost = tasks.create_task(watch_files(self.core.storage), name="database files")
            lost.add_done_callback(lambda _: stop.set())
            reachable = tasks.create_task(self.socket_file.watch(self.move), name="socket file")
            await stop.wait()
            self.systemd.stopping()
            reachable.cancel()
            self.state.reason = "the daemon is stopping"
            log.info("stopping")
            await drain(self.core, self.servers, serving, self.settings.server.shutdown_timeout_s)
            for task in (*background, lost):
                task.cancel()
        if not lost.cancelled():
            raise lost.result()

    def _start_background(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        core = self.core
        background = [
            tasks.create_task(self._sweep(), name="maintenance"),
            tasks.create_task(keep_tidy(core.storage.upkeep), name="tidying"),
            tasks.create_task(resume_rebuild(core.storage.upkeep), name="words"),
            tasks.create_task(watch_loop(core.telemetry.loop_lagged), name="loop lag"),
            tasks.create_task(core.receipts.run(), name="receipts"),
            tasks.create_task(core.audit.run(), name="audit"),
            tasks.create_task(core.release_worker.run(), name="quarantine"),
            tasks.create_task(core.calibrator.run(), name="calibration"),
            tasks.create_task(core.backups.keep_backing_up(), name="backups"),
            tasks.create_task(core.self_check.keep_proving(), name="proofs"),
            *(tasks.create_task(keep_doing(chore), name=chore.name) for chore in core.storage.chores),
        ]
        if core.lanes:
            # Not cancelled with the others: it ends once `drain` has stopped it.
            tasks.create_task(core.lanes.run(), name="embedding")
        return background

    def _start_attending(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        health = Health(self.core.storage, self.core.lanes, self.core.recorder.loop_lag)
        database = LivenessProbe(health.check, WRITER_TIMEOUT_S)
        return [
            tasks.create_task(keep_alive(self.systemd, database, trouble=health.trouble), name="watchdog"),
            tasks.create_task(self._reload(), name="reload"),
        ]

    def _become_ready(self) -> None:
        self.state.reason = None
        # Objects created by imports live forever; traversing them in each collection stalls requests for ms.
        gc.freeze()
        # A question has thousands of objects, and nearly all are freed without the collector.
        gc.set_threshold(YOUNG_OBJECTS)
        gc.enable()
        self.record.ready()
        log.info("ready", version=__version__, pid=os.getpid(), socket=str(self.socket_file.path))
        self.systemd.ready(self._serves)

    @property
    def _serves(self) -> str:
        return f"Serving on {self.socket_file.path}."

    async def _sweep(self) -> None:
        core = self.core
        await maintain(
            core.storage.entries,
            interval_s=self.settings.storage.sweep_interval_s,
            receipts=core.receipts,
            audit=core.audit,
            withdrawn=core.file_states,
            waiting=core.reviews,
            scrub=core.storage.scrub,
            held=core.backups.holding,
            recheck_table=core.lanes.recheck_table if core.lanes else None,
        )

    async def _reload(self) -> None:
        settings = self.settings
        while True:
            await self.reloader.wait()
            self.systemd.reloading()
            reload = await self.reloader.reload(settings)
            if reload.changed:
                settings = reload.settings
                configure_logging(settings.log)
                self.core.reconfigure(settings)
                self.access.reconfigure(settings.access)
                await self.core.audit.note_settings("reload", settings, self.core.storage.secret)
            self.systemd.ready(f"{self._serves} {reload.notice}")


async def drain(
    core: Core, servers: Sequence[Server], serving: Sequence[asyncio.Task[None]], timeout_s: float
) -> None:
    """Let the running requests end, then embed and write what is pending, all within one timeout."""
    loop = asyncio.get_running_loop()
    stop_by = loop.time() + timeout_s
    await asyncio.gather(*(server.stop() for server in servers))
    await asyncio.gather(*serving)
    left_s = max(0.0, stop_by - loop.time())
    async with asyncio.TaskGroup() as last:
        last.create_task(core.receipts.stop(left_s), name="last receipts")
        last.create_task(core.audit.stop(left_s), name="last audit rows")
        if core.lanes:
            last.create_task(core.lanes.stop(left_s), name="last vectors")


async def _until_signalled(settings: Settings, systemd: Systemd, read: Callable[[], Settings]) -> None:
    stop, reloader = asyncio.Event(), Reloader(read)
    with _signals(stop, reloader):
        await run(settings, stop=stop, systemd=systemd, reloader=reloader)


@contextmanager
def _signals(stop: asyncio.Event, reloader: Reloader) -> Iterator[None]:
    """Drain on the first SIGTERM or SIGINT, stop immediately on the second; acknowledged writes are on disk.

    SIGHUP reloads, unless our terminal was closed: then it stops the daemon, as nobody else could any more.
    """
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def signalled() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    has_terminal = sys.stderr.isatty()

    def hung_up() -> None:
        if has_terminal and not sys.stderr.isatty():
            stop.set()
        else:
            reloader.request()

    handlers = {signal.SIGTERM: signalled, signal.SIGINT: signalled, signal.SIGHUP: hung_up}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop
