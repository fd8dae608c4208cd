"""What the checks look at that need the database and the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, Skip
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.spending import Spending
from agentctx.embedding.queue.lanes import Lanes
from agentctx.errors import AgentctxError
from agentctx.service.base import CurrentSettings
from agentctx.service.rag.calibrator import Calibrator
from agentctx.service.refusals import Refusals
from agentctx.service.telemetry.recorder import Recorder
from agentctx.storage.base import Storage
from agentctx.storage.opening import server_of
from agentctx.storage.upkeep import UpkeepStorage
from agentctx.storage.vectors import Vectors
from agentctx.times import Clock


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
