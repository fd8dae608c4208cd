"""What the checks outside the daemon look at. The command gathers it, since it knows the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from agentctx.config.schema import Settings
from agentctx.doctor.check import Skip
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.opening import server_of
from agentctx.wire import StatusReply

NO_CONFIG = "the configuration does not load"
NOT_OURS = "only admins of the daemon may examine this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """The result of requesting the daemon's status, and otherwise of taking the lock of its data."""

    socket: str
    status: StatusReply | None = None
    refusal: AgentctxError | None = None
    """The reason why the status is missing; None if it is present."""
    lock_refusal: AgentctxError | None = None
    """Why the lock could not be taken; None if it was, or was not tried."""
    has_grant: bool = False
    """Whether a daemon that denied its status allows this user anything else."""
    other_socket: str = ""
    """The socket of the daemon that holds the lock, if it is a different one."""
    is_service: bool = False
    """Whether `refusal` is what systemd knows of the machine's service."""
    is_closed: bool = False
    """Whether this user may not connect to the socket."""

    @property
    def is_denied(self) -> bool:
        """Whether a daemon answers that this user may not examine."""
        return isinstance(self.refusal, AccessDenied)

    @property
    def is_running(self) -> bool:
        """Whether a daemon is running, even if it does not answer."""
        return self.status is not None or self.is_denied or isinstance(self.lock_refusal, AlreadyRunning)

    @property
    def has_answered(self) -> bool:
        """Whether the daemon that has the data answers, even with an error."""
        is_answer = self.refusal is not None and bool(self.refusal.request_id) and not self.other_socket
        return self.status is not None or (is_answer and isinstance(self.lock_refusal, AlreadyRunning))


class SocketFacts(NamedTuple):
    """The file at the path. `answer` is the result of connecting, None if it is not a socket."""

    mode: int
    uid: int
    answer: Literal["listening", "gone", "denied"] | None


class ConnectedAgents(NamedTuple):
    """What `agentctx connect` wrote: the commands that start bridges, and the files that lost theirs."""

    commands: Sequence[Sequence[str]]
    lost: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is known of the installation; the functions look at the machine, and may block and raise."""

    config: Path | None
    """The config file; None for the usual one."""
    config_problem: AgentctxError | None = None
    settings: Settings
    """The defaults unless `is_configured`."""
    is_configured: bool = True
    """Whether the configuration loads."""
    data_dir: Path | None
    """None if it is unknown."""
    socket: Path
    is_systemds_socket: bool = False
    contact: Contact
    look_at_socket: Callable[[], SocketFacts | None]
    """Return the facts of the file, or None if there is nothing at the path."""
    remove_stale_socket: Callable[[], str]
    """Remove the file, under the socket's lock, if no process listens, and return what was done."""
    find_agents: Callable[[], ConnectedAgents | None]
    """Return None if no agent is connected."""
    ask_bridge: Callable[[Sequence[str]], str | None]
    """Start a bridge as an agent does; return why it does not answer, or None if it does."""

    @property
    def folder(self) -> Path:
        """The data folder, which need not exist. Raises `Skip` if it is unknown."""
        if self.data_dir is None:
            raise Skip(NOT_OURS if self.contact.is_denied else NO_CONFIG)
        return self.data_dir

    @property
    def database(self) -> Path:
        """The database file, which need not exist. Raises `Skip` if the database is not a file."""
        folder, status = self.folder, self.contact.status
        database = status.database.path if status else server_of(self.settings)
        if database and not Path(database).is_absolute():
            raise Skip(f"the database is {database}")
        return folder / DATABASE_NAME

    @property
    def socket_mode(self) -> int | None:
        """`server.socket_mode`; None for a socket made by systemd."""
        return None if self.is_systemds_socket else int(self.settings.server.socket_mode, 8)

    @property
    def agents(self) -> ConnectedAgents:
        """The connected agents. Raises `Skip` if there are none."""
        if (agents := self.find_agents()) is None:
            raise Skip("no agent is connected")
        return agents
