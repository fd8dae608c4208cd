"""Examines a whole installation and merges the results into one report.

This process checks the machine. The daemon checks the database and the model if it answers; if no daemon has
them, this process does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from stat import S_IMODE, S_ISSOCK

from agentctx.agents.connect.changes import connect_change
from agentctx.agents.connect.connected_files import ConnectedFiles, connections_path
from agentctx.agents.connect.exchange import ExchangeFailed, exchange, servers
from agentctx.agents.connect.files import content
from agentctx.client.async_client import AsyncClient
from agentctx.client.transport import ClosedToUser
from agentctx.config.load import SettingsReading, read_settings
from agentctx.config.paths import default_data_dir, find_socket
from agentctx.config.problems import config_invalid
from agentctx.config.schema import Settings
from agentctx.daemon.host.installed_service import explained
from agentctx.daemon.host.listen import group_problem, probe_socket, remove_socket, socket_inode
from agentctx.daemon.host.lock import acquire_lock, data_lock_path, socket_lock_path
from agentctx.doctor import (  # noqa: F401 - checks
    config_file,
    connections,
    daemon,
    data_folder,
    database_file,
    disk,
    program,
    socket_file,
)
from agentctx.doctor.catalog import CHECK_IDS, INNER_IDS
from agentctx.doctor.daemon import read_record
from agentctx.doctor.examination import examine_alone
from agentctx.doctor.machine import NOT_OURS, ConnectedAgents, Contact, Machine, SocketFacts
from agentctx.doctor.runner import broken, report, result, run_checks, skip_all
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning, ConfigInvalid, DaemonUnreachable
from agentctx.storage.offline import DATABASE_NAME, MEBIBYTE
from agentctx.storage.opening import server_of
from agentctx.wire import CheckResult, DoctorReply

CONTACT_S = 10.0
EXAMINE_S = 900.0
"""How long the daemon may take: repairs of a large database take minutes."""

_NO_CONFIG = "the configuration does not load"
_NEED_CONFIG = ("backup.", "embedding.", "rag.")
_BEFORE_LOCKING = ("python.", "sqlite.", "config.", "files.")
"""The checks that need no lock. Repairing permissions may help others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What to examine, and how. `wanted` holds check ids."""

    config: Path | None = None
    data_dir: Path | None = None
    socket: Path | None = None
    wanted: Sequence[str] = CHECK_IDS
    fix: bool = False
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What is known of the configuration. `settings` is None if it does not load."""

    file: Path | None
    problem: AgentctxError | None
    settings: Settings | None
    data_dir: Path | None
    """None if it is unknown."""
    socket: Path

    @property
    def usable(self) -> Settings:
        """The settings, or the defaults, for uses where the difference matters little."""
        return self.settings or Settings()


async def examine(checkup: Checkup) -> DoctorReply:
    """Run the wanted checks. Problems of the installation are in the reply, never raised."""
    loaded = _load(checkup)
    inner = [check for check in checkup.wanted if check in INNER_IDS]
    unlocked = [check for check in checkup.wanted if check.startswith(_BEFORE_LOCKING)]
    async with AsyncClient(loaded.socket, timeout_s=CONTACT_S, start_timeout_s=0) as client:
        machine = _machine(checkup, loaded, await _contact(client, checkup))
        results = await run_checks(unlocked, machine, fix=checkup.fix)
        with ExitStack() as held:
            machine = _lock(machine, held)
            locked = [check for check in checkup.wanted if check not in unlocked]
            results += await run_checks(locked, machine, fix=checkup.fix)
            if inner and machine.contact.has_answered:
                results += await _ask_daemon(client, checkup, inner)
            elif inner:
                results += await _examine_alone(checkup, loaded, machine, inner)
    return report(results)


def _load(checkup: Checkup) -> _Loaded:
    reading: SettingsReading | None = None
    problem: AgentctxError | None = None
    try:
        reading = read_settings(checkup.config, {"data_dir": checkup.data_dir, "socket": checkup.socket})
    except ConfigInvalid as error:
        problem = error
    else:
        problem = config_invalid(reading.problems) if reading.settings is None else None
    # The top-level values that were set, even if others are invalid; the strongest source wins.
    given = {each.path[0]: each.value for each in reading.values if len(each.path) == 1} if reading else {}
    data_dir = given.get("data_dir") or (default_data_dir() if _is_whole(reading) else None)
    return _Loaded(
        file=reading.file if reading else checkup.config,
        problem=problem,
        settings=reading.settings if reading else None,
        data_dir=checkup.data_dir or (Path(str(data_dir)) if data_dir else None),
        socket=checkup.socket or Path(str(given.get("socket") or find_socket())),
    )


def _is_whole(reading: SettingsReading | None) -> bool:
    """Return whether all sources could be read, so that an unset setting has its default."""
    if reading is None:
        return False
    return (
        reading.settings is not None
        or reading.file is None
        or any(each.origin.kind == "file" for each in reading.values)
    )


async def _contact(client: AsyncClient, checkup: Checkup) -> Contact:
    socket, data_dir = str(client.socket), checkup.data_dir
    has_grant = False
    try:
        status = await client.status()
    except AgentctxError as error:
        refusal = error
        if isinstance(error, AccessDenied):
            has_grant = await _has_grant(client)
    else:
        theirs = Path(status.database.path)
        if not theirs.is_absolute() or data_dir is None or data_dir.resolve() == theirs.parent.resolve():
            return Contact(socket=socket, status=status)
        refusal = DaemonUnreachable(
            f"The daemon on {socket} has its data in {theirs.parent}, not in {data_dir}."
        )
    explanation = await asyncio.to_thread(explained, refusal, checkup.socket)
    return Contact(
        socket=socket,
        refusal=explanation,
        has_grant=has_grant,
        is_service=explanation is not refusal,
        is_closed=isinstance(explanation, ClosedToUser),
    )


async def _has_grant(client: AsyncClient) -> bool:
    """Return whether the daemon answers a request that any grant allows."""
    try:
        await client.injections(limit=1)
    except AgentctxError:
        return False
    return True


def _machine(checkup: Checkup, loaded: _Loaded, contact: Contact) -> Machine:
    """Return what the checks look at. An answering daemon's folder counts, since its settings may differ.

    If only others may examine the daemon, its folder is unknown and ours is irrelevant.
    """
    settings, status, data_dir = loaded.usable, contact.status, loaded.data_dir
    database = status.database.path if status else server_of(settings) or "/"
    if contact.is_denied:
        data_dir = checkup.data_dir
    elif status is not None and Path(database).is_absolute():
        data_dir = Path(database).parent
    owner = look_at_socket(loaded.socket) if status is not None else None
    return Machine(
        config=loaded.file or checkup.config,
        config_problem=loaded.problem or group_problem(settings.server.socket_group),
        data_dir=data_dir,
        no_data_dir=NOT_OURS if contact.is_denied else _NO_CONFIG,
        daemon_uid=owner.uid if owner else None,
        reserve_bytes=settings.storage.reserve_mb * MEBIBYTE,
        server="" if Path(database).is_absolute() else database,
        socket=loaded.socket,
        socket_mode=int(settings.server.socket_mode, 8),
        look_at_socket=partial(look_at_socket, loaded.socket),
        remove_stale_socket=partial(_remove_stale, loaded.socket),
        contact=contact,
        find_agents=cache(partial(find_agents, connections_path())),
        ask_bridge=ask_bridge,
    )


def look_at_socket(path: Path) -> SocketFacts | None:
    """Return the facts of the file, or None if there is nothing at the path."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    answer = probe_socket(path) if S_ISSOCK(status.st_mode) else None
    return SocketFacts(S_IMODE(status.st_mode), status.st_uid, answer)


def _remove_stale(path: Path) -> str:
    with acquire_lock(socket_lock_path(path)):
        facts = look_at_socket(path)
        if facts is not None and facts.answer == "gone":
            remove_socket(path, socket_inode(path))
    return f"removed {path}"


def find_agents(ledger: Path) -> ConnectedAgents | None:
    """Return what the ledger says that was written for agents; None if nothing was."""
    files = ConnectedFiles(ledger).all()
    if not files:
        return None
    commands = dict.fromkeys(tuple(command) for each in files.values() for command in servers(each.edits))
    lost = []
    for path, known in files.items():
        try:
            change = connect_change(
                path, known.agent, content(path), known, known.edits, project=known.project
            )
        except (ConfigInvalid, OSError) as error:
            lost.append(error.message if isinstance(error, ConfigInvalid) else str(error))
        else:
            lost += [str(path)] if change is not None else []
    return ConnectedAgents(commands=[*commands], lost=lost)


def ask_bridge(command: Sequence[str]) -> str | None:
    """Start a bridge as an agent does; return why it does not answer, or None if it does."""
    try:
        exchange(command)
    except ExchangeFailed as failure:
        return str(failure)
    return None


def _lock(machine: Machine, held: ExitStack) -> Machine:
    """Lock the data folder against daemons meanwhile, and record the refusal if one holds it."""
    folder, contact, socket = machine.data_dir, machine.contact, machine.socket.absolute()
    if folder is None:
        return machine
    lock = data_lock_path(folder)
    if contact.status is None and (lock.exists() or (folder / DATABASE_NAME).exists()):
        try:
            held.enter_context(acquire_lock(lock))
        except AgentctxError as error:
            contact = replace(contact, lock_refusal=error)
    try:
        record = read_record(folder)
    except (OSError, ValueError):
        record = None
    is_of_socket = record is not None and Path(record.socket) == socket
    if contact.lock_refusal and record and not is_of_socket:
        contact = replace(contact, other_socket=record.socket)
    # systemd passed this socket to the last daemon of the data folder.
    is_systemds = record is not None and record.is_activated and is_of_socket
    return replace(machine, contact=contact, socket_mode=None if is_systemds else machine.socket_mode)


async def _ask_daemon(client: AsyncClient, checkup: Checkup, wanted: Sequence[str]) -> list[CheckResult]:
    patient = client.within(EXAMINE_S)
    ask = patient.doctor_fix if checkup.fix else patient.doctor
    try:
        return (await ask(only=wanted, offline=checkup.offline)).checks
    except AgentctxError as error:
        unexamined = skip_all(wanted[1:], "the daemon did not examine it")
        return [result(wanted[0], broken(error)), *unexamined]


async def _examine_alone(
    checkup: Checkup, loaded: _Loaded, machine: Machine, wanted: Sequence[str]
) -> list[CheckResult]:
    if machine.data_dir is None:
        return skip_all(wanted, machine.no_data_dir)
    unknown = [check for check in wanted if not loaded.settings and check.startswith(_NEED_CONFIG)]
    taken: str | None = None
    if refusal := machine.contact.lock_refusal:
        is_running = isinstance(refusal, AlreadyRunning)
        taken = "a daemon that does not answer here has the database" if is_running else refusal.message
    known = await examine_alone(
        loaded.usable,
        machine.data_dir / DATABASE_NAME,
        [check for check in wanted if check not in unknown],
        offline=checkup.offline,
        fix=checkup.fix,
        taken=taken,
    )
    return known + skip_all(unknown, _NO_CONFIG)
