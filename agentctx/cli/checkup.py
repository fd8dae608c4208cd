"""Examines a whole installation and merges the results into one report.

This process checks the machine. The daemon checks the database and the model if it answers; if no daemon has
them, this process does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from stat import S_IMODE, S_ISSOCK

from agentctx.agents.connect.changes import connect_change
from agentctx.agents.connect.connected_files import ConnectedFile, ConnectedFiles, connections_path
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
from agentctx.doctor import config_file, connections, data_folder, database_file, disk, program, socket_file  # noqa: F401 - checks
from agentctx.doctor.catalog import CHECK_IDS, INNER_IDS
from agentctx.doctor.check import Skip, broken, report, result, run_checks, skip_all
from agentctx.doctor.contexts import NO_CONFIG, ConnectedAgents, Contact, Machine, SocketFacts
from agentctx.doctor.daemon import read_record
from agentctx.doctor.examination import examine_alone
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning, ConfigInvalid, DaemonUnreachable
from agentctx.storage.offline import DATABASE_NAME
from agentctx.wire import CheckResult, DoctorReply

CONTACT_S = 10.0
EXAMINE_S = 900.0
"""How long the daemon may take: repairs of a large database take minutes."""

_NEED_CONFIG = ("backup.", "embedding.", "rag.")
_BEFORE_LOCKING = ("python.", "sqlite.", "config.", "files.")
"""The checks that need no lock. Repairing permissions may help others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The options of one examination. `ids` are ids of checks."""

    config: Path | None = None
    data_dir: Path | None = None
    socket: Path | None = None
    ids: Sequence[str] = CHECK_IDS
    fix: bool = False
    offline: bool = False


async def examine(checkup: Checkup) -> DoctorReply:
    """Run the checks. Problems of the installation are in the reply, never raised."""
    machine = _find_machine(checkup)
    inner = [check for check in checkup.ids if check in INNER_IDS]
    unlocked = [check for check in checkup.ids if check.startswith(_BEFORE_LOCKING)]
    locked = [check for check in checkup.ids if check not in unlocked]
    async with AsyncClient(machine.socket, timeout_s=CONTACT_S, start_timeout_s=0) as client:
        machine = await _with_contact(machine, client, checkup)
        results = await run_checks(unlocked, machine, fix=checkup.fix)
        with ExitStack() as held:
            machine = _lock(machine, held)
            results += await run_checks(locked, machine, fix=checkup.fix)
            if inner and machine.contact.has_answered:
                results += await _ask_daemon(client, checkup, inner)
            elif inner:
                results += await _examine_alone(machine, checkup, inner)
    return report(results)


def _find_machine(checkup: Checkup) -> Machine:
    """Read the configuration, as far as it can be read. No daemon is asked yet."""
    reading: SettingsReading | None = None
    problem: AgentctxError | None = None
    try:
        reading = read_settings(checkup.config, {"data_dir": checkup.data_dir, "socket": checkup.socket})
        problem = config_invalid(reading.problems) if reading.settings is None else None
    except ConfigInvalid as error:
        problem = error
    values = reading.values if reading else []
    # The top-level values that were set, even if others are invalid; the strongest source wins.
    given = {each.path[0]: each.value for each in values if len(each.path) == 1}
    loaded = reading.settings if reading else None
    settings = loaded or Settings()
    is_file_read = reading is not None and (not reading.file or any(v.origin.kind == "file" for v in values))
    data_dir = checkup.data_dir or given.get("data_dir")
    if not data_dir and (loaded or is_file_read):  # otherwise it may be set where it cannot be read
        data_dir = default_data_dir()
    socket = checkup.socket or Path(str(given.get("socket") or find_socket()))
    return Machine(
        config=reading.file if reading else checkup.config,
        config_problem=problem or group_problem(settings.server.socket_group),
        settings=settings,
        is_configured=loaded is not None,
        data_dir=Path(str(data_dir)) if data_dir else None,
        socket=socket,
        socket_mode=int(settings.server.socket_mode, 8),
        contact=Contact(socket=str(socket)),
        look_at_socket=partial(look_at_socket, socket),
        remove_stale_socket=partial(_remove_stale, socket),
        find_agents=cache(partial(find_agents, connections_path())),
        ask_bridge=ask_bridge,
    )


async def _with_contact(machine: Machine, client: AsyncClient, checkup: Checkup) -> Machine:
    """Add what the daemon answers. Its data folder counts, since its settings may differ.

    If only others may examine the daemon, its folder is unknown and ours is irrelevant.
    """
    socket, data_dir, has_grant = str(client.socket), checkup.data_dir, False
    try:
        status = await client.status()
        theirs = Path(status.database.path)
        if theirs.is_absolute() and data_dir and data_dir.resolve() != theirs.parent.resolve():
            raise DaemonUnreachable(
                f"The daemon on {socket} has its data in {theirs.parent}, not in {data_dir}."
            )
        folder = theirs.parent if theirs.is_absolute() else machine.data_dir
        return replace(machine, data_dir=folder, contact=Contact(socket=socket, status=status))
    except AgentctxError as error:
        refusal = error
    if isinstance(refusal, AccessDenied):
        with suppress(AgentctxError):
            await client.injections(limit=1)  # any grant allows it
            has_grant = True
    explanation = await asyncio.to_thread(explained, refusal, checkup.socket)
    contact = Contact(
        socket=socket,
        refusal=explanation,
        has_grant=has_grant,
        is_service=explanation is not refusal,
        is_closed=isinstance(explanation, ClosedToUser),
    )
    return replace(machine, data_dir=data_dir if contact.is_denied else machine.data_dir, contact=contact)


def _lock(machine: Machine, held: ExitStack) -> Machine:
    """Lock the data folder against daemons meanwhile, and record the refusal if one holds it."""
    folder, contact, record = machine.data_dir, machine.contact, None
    if folder is None:
        return machine
    lock = data_lock_path(folder)
    if contact.status is None and (lock.exists() or (folder / DATABASE_NAME).exists()):
        try:
            held.enter_context(acquire_lock(lock))
        except AgentctxError as error:
            contact = replace(contact, lock_refusal=error)
    with suppress(OSError, ValueError):
        record = read_record(folder)
    is_of_socket = record is not None and Path(record.socket) == machine.socket.absolute()
    if contact.lock_refusal and record and not is_of_socket:
        contact = replace(contact, other_socket=record.socket)
    # systemd passed this socket to the last daemon of the data folder.
    is_systemds = record is not None and record.is_activated and is_of_socket
    return replace(machine, contact=contact, socket_mode=None if is_systemds else machine.socket_mode)


async def _ask_daemon(client: AsyncClient, checkup: Checkup, ids: Sequence[str]) -> list[CheckResult]:
    patient = client.within(EXAMINE_S)
    ask = patient.doctor_fix if checkup.fix else patient.doctor
    try:
        return (await ask(only=ids, offline=checkup.offline)).checks
    except AgentctxError as error:
        return [result(ids[0], broken(error)), *skip_all(ids[1:], "the daemon did not examine it")]


async def _examine_alone(machine: Machine, checkup: Checkup, ids: Sequence[str]) -> list[CheckResult]:
    try:
        database = machine.folder / DATABASE_NAME
    except Skip as reason:
        return skip_all(ids, str(reason))
    unknown = [check for check in ids if not machine.is_configured and check.startswith(_NEED_CONFIG)]
    refusal = machine.contact.lock_refusal
    taken = refusal.message if refusal else None
    if isinstance(refusal, AlreadyRunning):
        taken = "a daemon that does not answer here has the database"
    known = [check for check in ids if check not in unknown]
    results = await examine_alone(
        machine.settings, database, known, offline=checkup.offline, fix=checkup.fix, taken=taken
    )
    return results + skip_all(unknown, NO_CONFIG)


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


def find_agents(record: Path) -> ConnectedAgents:
    """Return what the record says that was written for agents. Raises `Skip` if nothing was."""
    if not (files := ConnectedFiles(record).all()):
        raise Skip("no agent is connected")
    commands = dict.fromkeys(tuple(command) for each in files.values() for command in servers(each.edits))
    lost = [loss for path, written in files.items() if (loss := _loss(path, written))]
    return ConnectedAgents([*commands], lost)


def _loss(path: Path, written: ConnectedFile) -> str:
    """Return the path of a file that lost what was written, why it cannot be read, or an empty text."""
    try:
        edits, project = written.edits, written.project
        change = connect_change(path, written.agent, content(path), written, edits, project=project)
    except ConfigInvalid as error:
        return error.message
    except OSError as error:
        return str(error)
    return "" if change is None else str(path)


def ask_bridge(command: Sequence[str]) -> str | None:
    """Start a bridge as an agent does; return why it does not answer, or None if it does."""
    try:
        exchange(command)
    except ExchangeFailed as failure:
        return str(failure)
    return None
