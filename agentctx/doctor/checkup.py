"""Runs all checks of an installation and merges the results into one report.

This process checks the machine. The daemon checks the database and the model if it answers; if no daemon has
them, this process does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from agentctx import __version__
from agentctx.client.async_client import AsyncClient
from agentctx.commit import own_commit
from agentctx.config.load import SettingsReading, read_settings
from agentctx.config.paths import default_data_dir, find_socket
from agentctx.config.problems import config_invalid
from agentctx.config.schema import Settings
from agentctx.connect.ledger import ledger_path
from agentctx.doctor.catalog import CHECK_IDS, INNER_IDS
from agentctx.doctor.check import Check, Finding, blocking, passed, skipping, warned
from agentctx.doctor.config_file import config_checks
from agentctx.doctor.connections import connection_checks
from agentctx.doctor.contact import NOT_OURS, Contact, contact_checks
from agentctx.doctor.data_folder import data_folder_checks
from agentctx.doctor.database_file import database_file_check
from agentctx.doctor.disk import disk_checks
from agentctx.doctor.examination import examine_alone
from agentctx.doctor.last_start import last_start_check
from agentctx.doctor.runner import chosen, report, run_checks
from agentctx.doctor.socket_file import check_socket, socket_checks
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning, ConfigInvalid, DaemonUnreachable
from agentctx.host.installed_service import explained
from agentctx.host.listen import group_problem, remove_socket, socket_inode
from agentctx.host.lock import acquire_lock, data_lock_path, socket_lock_path
from agentctx.host.start_record import StartRecord, read_record
from agentctx.storage.offline import DATABASE_NAME, MEBIBYTE
from agentctx.storage.opening import offline_storage, server_of
from agentctx.times import wall_clock
from agentctx.wire import CheckResult, DoctorReply

CONTACT_S = 10.0
EXAMINE_S = 900.0
"""How long the daemon may take: repairs of a large database take minutes."""

_NO_CONFIG = "the configuration does not load"
_OF_DATABASE = ("files.database", "files.reserve")
PYTHON_FROM = (3, 11)
PYTHON_BELOW = (3, 14)


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
    async with AsyncClient(loaded.socket, timeout_s=CONTACT_S, start_timeout_s=0) as client:
        contact = await _contact(client, checkup.data_dir)
        if contact.refusal is not None:
            refusal = await asyncio.to_thread(explained, contact.refusal, checkup.socket)
            contact = replace(contact, refusal=refusal, is_service=refusal is not contact.refusal)
        return await _Examining(checkup, loaded, client, contact).run()


def _load(checkup: Checkup) -> _Loaded:
    flags = {"data_dir": checkup.data_dir, "socket": checkup.socket}
    reading, problem = _read(checkup.config, flags)
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


def _read(config: Path | None, flags: dict[str, Any]) -> tuple[SettingsReading | None, AgentctxError | None]:
    try:
        reading = read_settings(config, flags)
    except ConfigInvalid as error:
        return None, error
    return reading, config_invalid(reading.problems) if reading.settings is None else None


def _is_whole(reading: SettingsReading | None) -> bool:
    """Return whether all sources could be read, so that an unset setting has its default."""
    if reading is None:
        return False
    return (
        reading.settings is not None
        or reading.file is None
        or any(each.origin.kind == "file" for each in reading.values)
    )


async def _contact(client: AsyncClient, data_dir: Path | None) -> Contact:
    socket = str(client.socket)
    try:
        status = await client.status()
    except AccessDenied as error:
        return Contact(socket=socket, refusal=error, has_grant=await _has_grant(client))
    except AgentctxError as error:
        return Contact(socket=socket, refusal=error)
    theirs = Path(status.database.path)
    is_server = not theirs.is_absolute()
    if is_server or data_dir is None or _is_same_folder(data_dir, theirs.parent):
        return Contact(socket=socket, status=status)
    refusal = DaemonUnreachable(f"The daemon on {socket} has its data in {theirs.parent}, not in {data_dir}.")
    return Contact(socket=socket, refusal=refusal)


def _is_same_folder(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


async def _has_grant(client: AsyncClient) -> bool:
    """Return whether the daemon answers a request that any grant allows."""
    try:
        await client.injections(limit=1)
    except AgentctxError:
        return False
    return True


class _Examining:
    """One examination: what to check, what is known of the configuration, and of the daemon."""

    def __init__(self, checkup: Checkup, loaded: _Loaded, client: AsyncClient, contact: Contact) -> None:
        self._checkup = checkup
        self._loaded = loaded
        self._client = client
        self._contact = contact
        self._data_dir = self._folder()
        self._no_folder = NOT_OURS if contact.is_denied else _NO_CONFIG
        """Why no data folder can be examined, if none is known."""

    async def run(self) -> DoctorReply:
        results = await self._results(self._first_checks())
        with ExitStack() as held:
            if self._contact.status is None and self._data_dir is not None:
                self._take_lock(held, self._data_dir)
            results += await self._results(self._second_checks())
            results += await self._inner()
        return report(results)

    async def _results(self, checks: Sequence[Check]) -> list[CheckResult]:
        return await run_checks(chosen(checks, self._checkup.wanted), fix=self._checkup.fix)

    def _folder(self) -> Path | None:
        """Return the data folder of the answering daemon, whose settings may differ from ours, else our own.

        If only others may examine the daemon, its folder is unknown and ours is irrelevant.
        """
        status = self._contact.status
        if self._contact.is_denied:
            return self._checkup.data_dir
        if status is None or not Path(status.database.path).is_absolute():
            return self._loaded.data_dir
        return Path(status.database.path).parent

    def _first_checks(self) -> list[Check]:
        """Return the checks that need no lock. Permissions come first: repairing them may help others."""
        loaded, folder = self._loaded, self._data_dir
        problem = loaded.problem or group_problem(loaded.usable.server.socket_group)
        checks = [*program_checks(), *config_checks(loaded.file or self._checkup.config, problem)]
        if folder is None:
            of_files = (check for check in CHECK_IDS if check.startswith("files."))
            return [*checks, *(skipping(check, self._no_folder) for check in of_files)]
        owner = check_socket(loaded.socket) if self._contact.status is not None else None
        checks += data_folder_checks(folder, daemon_uid=owner.uid if owner else None)
        disk = disk_checks(folder, reserve_bytes=loaded.usable.storage.reserve_mb * MEBIBYTE)
        status = self._contact.status
        database = status.database.path if status else server_of(loaded.usable) or "/"
        if Path(database).is_absolute():
            return [*checks, database_file_check(folder / DATABASE_NAME), *disk]
        elsewhere = [skipping(check, f"the database is {database}") for check in _OF_DATABASE]
        return [*checks, *(check for check in disk if check.id not in _OF_DATABASE), *elsewhere]

    def _take_lock(self, held: ExitStack, data_dir: Path) -> None:
        """Lock the data folder against daemons meanwhile, and record the refusal if one holds it."""
        lock = data_lock_path(data_dir)
        if not (lock.exists() or (data_dir / DATABASE_NAME).exists()):
            return
        try:
            held.enter_context(acquire_lock(lock))
        except AgentctxError as error:
            record = self._last_start()
            is_elsewhere = record is not None and Path(record.socket) != self._loaded.socket.absolute()
            other = record.socket if record and is_elsewhere else ""
            self._contact = replace(self._contact, lock_refusal=error, other_socket=other)

    def _last_start(self) -> StartRecord | None:
        """Return the record of the last start, or None if there is none or it cannot be read."""
        try:
            return None if self._data_dir is None else read_record(self._data_dir)
        except (OSError, ValueError):
            return None

    def _second_checks(self) -> list[Check]:
        contact, socket, record = self._contact, self._loaded.socket, self._last_start()
        # systemd passed this socket to the last daemon of the data folder.
        is_systemds = record is not None and record.is_activated and Path(record.socket) == socket.absolute()
        mode = None if is_systemds else int(self._loaded.usable.server.socket_mode, 8)
        last_start = skipping("daemon.last_start", self._no_folder)
        if self._data_dir is not None:
            last_start = last_start_check(self._data_dir, is_running=contact.is_running, now=wall_clock())
        return [
            *socket_checks(socket, wanted_mode=mode, remove_stale=lambda: _remove_stale(socket)),
            *contact_checks(contact, version=__version__, commit=own_commit()),
            last_start,
            *connection_checks(ledger_path(), socket.absolute(), is_running=contact.is_running),
        ]

    async def _inner(self) -> list[CheckResult]:
        checkup, loaded = self._checkup, self._loaded
        wanted = tuple(check for check in INNER_IDS if check in checkup.wanted)
        if not wanted:
            return []
        if self._contact.has_answered:
            return await self._by_daemon(wanted)
        if self._data_dir is None:
            return await run_checks([skipping(check, self._no_folder) for check in wanted])
        needing = ("backup.", "embedding.", "rag.")
        unknown = () if loaded.settings else tuple(check for check in wanted if check.startswith(needing))
        results = await examine_alone(
            loaded.usable,
            self._data_dir / DATABASE_NAME,
            [check for check in wanted if check not in unknown],
            offline=checkup.offline,
            fix=checkup.fix,
            taken=_taken(self._contact),
        )
        return results + await run_checks([skipping(check, _NO_CONFIG) for check in unknown])

    async def _by_daemon(self, wanted: Sequence[str]) -> list[CheckResult]:
        patient = self._client.within(EXAMINE_S)
        try:
            ask = patient.doctor_fix if self._checkup.fix else patient.doctor
            return (await ask(only=wanted, offline=self._checkup.offline)).checks
        except AgentctxError as error:
            rest = [skipping(check, "the daemon did not examine it") for check in wanted[1:]]
            return await run_checks([Check(id=wanted[0], run=partial(_raise, error)), *rest])


def _raise(error: AgentctxError) -> NoReturn:
    raise error


def _remove_stale(path: Path) -> str:
    with acquire_lock(socket_lock_path(path)):
        facts = check_socket(path)
        if facts is not None and facts.answer == "gone":
            remove_socket(path, socket_inode(path))
    return f"removed {path}"


def _taken(contact: Contact) -> str | None:
    """Return why the database must not be opened, or None if this process may."""
    if contact.lock_refusal is None:
        return None
    if isinstance(contact.lock_refusal, AlreadyRunning):
        return "a daemon that does not answer here has the database"
    return contact.lock_refusal.message


def program_checks() -> list[Check]:
    return [
        Check(id="python.version", run=blocking(lambda: judge_python(sys.version_info[:3], sys.executable))),
        *(_feature_check(check, attempt) for check, attempt in offline_storage().feature_checks.items()),
    ]


def judge_python(version: tuple[int, ...], executable: str) -> Finding:
    name = f"Python {_dotted(version)}"
    if PYTHON_FROM <= version[:2] < PYTHON_BELOW:
        return passed(name, detail=executable)
    return warned(
        f"{name} is not a Python version agentctx is tested with",
        detail=executable,
        hint=f"Use Python {_dotted(PYTHON_FROM)} or newer, below {_dotted(PYTHON_BELOW)}.",
    )


def _feature_check(check: str, attempt: Callable[[], str]) -> Check:
    return Check(id=check, run=blocking(lambda: passed(attempt())))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
