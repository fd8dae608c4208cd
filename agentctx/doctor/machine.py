"""What the checks outside the daemon look at. The command gathers it, since it knows the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentctx.doctor.check import Skip
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning
from agentctx.storage.offline import DATABASE_NAME
from agentctx.wire import StatusReply

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
        if self.status is not None:
            return True
        is_answer = self.refusal is not None and bool(self.refusal.request_id)
        return is_answer and isinstance(self.lock_refusal, AlreadyRunning) and not self.other_socket


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """The file at the path. `answer` is the result of connecting, None if it is not a socket."""

    mode: int
    uid: int
    answer: Literal["listening", "gone", "denied"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedAgents:
    """What `agentctx connect` has written."""

    commands: Sequence[Sequence[str]]
    """The commands by which agents start the bridge."""
    lost: Sequence[str]
    """Settings files that lost what was written into them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is known of the installation; the functions look at the machine, and may block and raise."""

    config: Path | None
    """The config file; None for the usual one."""
    config_problem: AgentctxError | None
    data_dir: Path | None
    """None if it is unknown."""
    no_data_dir: str
    """Why it is unknown."""
    daemon_uid: int | None
    """The user of the daemon that answers; None if none does."""
    reserve_bytes: int
    server: str = ""
    """The server that has the database; empty if a file of the data folder has it."""
    socket: Path
    socket_mode: int | None
    """`server.socket_mode`; None for a socket made by systemd."""
    look_at_socket: Callable[[], SocketFacts | None]
    """Return the facts of the file, or None if there is nothing at the path."""
    remove_stale_socket: Callable[[], str]
    """Remove the file, under the socket's lock, if no process listens, and return what was done."""
    contact: Contact
    find_agents: Callable[[], ConnectedAgents | None]
    """Return None if no agent is connected."""
    ask_bridge: Callable[[Sequence[str]], str | None]
    """Start a bridge as an agent does; return why it does not answer, or None if it does."""

    @property
    def folder(self) -> Path:
        """The data folder, which need not exist. Raises `Skip` if it is unknown."""
        if self.data_dir is None:
            raise Skip(self.no_data_dir)
        return self.data_dir

    @property
    def database(self) -> Path:
        """The database file, which need not exist. Raises `Skip` if the database is not a file."""
        folder = self.folder
        if self.server:
            raise Skip(f"the database is {self.server}")
        return folder / DATABASE_NAME

    @property
    def agents(self) -> ConnectedAgents:
        """The connected agents. Raises `Skip` if there are none."""
        found = self.find_agents()
        if found is None:
            raise Skip("no agent is connected")
        return found
