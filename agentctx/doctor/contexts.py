"""What checks look at: the machine from outside, and inside the database, its model and the daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, Skip
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.spending import Spending
from agentctx.embedding.queue.lanes import Lanes
from agentctx.errors import AccessDenied, AgentctxError, AlreadyRunning
from agentctx.service.base import CurrentSettings
from agentctx.service.rag.calibrator import Calibrator
from agentctx.service.refusals import Refusals
from agentctx.service.telemetry.recorder import Recorder
from agentctx.storage.base import Storage
from agentctx.storage.offline import DATABASE_NAME
from agentctx.storage.opening import server_of
from agentctx.storage.upkeep import UpkeepStorage
from agentctx.storage.vectors import Vectors
from agentctx.times import Clock
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
    socket_mode: int | None
    """`server.socket_mode`; None for a socket made by systemd."""
    contact: Contact
    look_at_socket: Callable[[], SocketFacts | None]
    """Return the facts of the file, or None if there is nothing at the path."""
    remove_stale_socket: Callable[[], str]
    """Remove the file, under the socket's lock, if no process listens, and return what was done."""
    find_agents: Callable[[], ConnectedAgents]
    """Return the connected agents. Raises `Skip` if there are none."""
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


class ProbeAnswer(NamedTuple):
    """The canary's vector, of unit length or None, and the finding about the call."""

    vector: Vectors | None
    finding: Finding


@dataclass(slots=True, kw_only=True)
class Embedding:
    """The embedding settings, and the provider created from them."""

    settings: EmbeddingSettings
    provider: EmbeddingProvider | None
    """None if embedding is off, or if the provider could not be created."""
    problem: AgentctxError | None = None
    """Why the provider could not be created; None if it was."""
    spending: Spending | None = None
    """The provider's cost; None unless it is used over HTTP."""
    offline: bool = False
    """Whether to ask no provider outside this process."""
    is_next: bool = False
    """Whether this is the model of `embedding.next`, in use while [embedding] names the previous one."""
    answer: ProbeAnswer | None = field(default=None, init=False)
    """What `provider.probe` was answered; None if it was not called yet."""


@dataclass
class RunningDaemon:
    """What the daemon that examines itself has open."""

    storage: Storage
    database: Path
    lanes: Lanes | None
    calibrator: Calibrator
    refusals: Refusals
    recorder: Recorder
    settings: CurrentSettings
    expect_memory: Callable[[], str | None]
    """Return what is scarce, or None. Raises `ConfigInvalid` if the memory is too little to run on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A database, its model and the daemon that has them, if one runs."""

    settings: Settings
    path: Path
    folder: Path | None = None
    """The data folder; None if it does not exist or another process has it."""
    opening: Finding
    """The result of opening the database."""
    opened: Storage | None
    embedding: Embedding
    daemon: RunningDaemon | None = None
    clock: Clock

    @property
    def server(self) -> str | None:
        """The server that has the database; None if it is the file at `path`."""
        return server_of(self.settings)

    @property
    def storage(self) -> Storage:
        """The open database. Raises `Skip` if it is not open."""
        if self.opened is None:
            raise Skip(self.not_opened)
        return self.opened

    @property
    def not_opened(self) -> str:
        """Why the database is not open."""
        return self.opening.message if self.opening.status == "skip" else "the database does not open"

    @property
    def upkeep(self) -> UpkeepStorage:
        """Of the open database. Raises `Skip` if it is not open."""
        return self.storage.upkeep

    @property
    def running(self) -> RunningDaemon:
        """The running daemon. Raises `Skip` if there is none."""
        if self.daemon is None:
            raise Skip("no daemon runs")
        return self.daemon

    def recheck_table(self) -> None:
        """Tell the running queue, if there is one, that jobs were added to the table."""
        if self.daemon is not None and self.daemon.lanes is not None:
            self.daemon.lanes.recheck_table()
