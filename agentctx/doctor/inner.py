"""What the checks look at that need the database and the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, Skip, failed, passed, skipped
from agentctx.embedding.providers.base import EmbeddingProvider
from agentctx.embedding.providers.canary import embed_canary
from agentctx.embedding.providers.registry import NONE, create_provider, describe_provider, open_spending
from agentctx.embedding.providers.spending import Spending
from agentctx.errors import AgentctxError, ProviderFailed, StorageFailed
from agentctx.service.self_check import RunningModels
from agentctx.service.telemetry.loop_lag import LoopLag
from agentctx.storage.base import Storage
from agentctx.storage.upkeep import UpkeepStorage
from agentctx.storage.vectors import Vectors
from agentctx.times import Clock, wall_clock
from agentctx.wire import CalibrationState, WithoutContext

OFF: Final = "embedding is off: embedding.provider is none"
LONGEST_PROBE_S: Final = 20.0
"""Longer than any answer that a question could wait for; the provider may be loading a model."""
PROBE_S: Final = LONGEST_PROBE_S + 5
"""Timeout of a check that asks the provider, so that the finding on the call shows first."""


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
    _answer: ProbeAnswer | None = field(default=None, init=False)

    async def probe(self) -> ProbeAnswer:
        """Embed the canary, once for all checks that need its vector."""
        if self._answer is None:
            self._answer = await self._ask()
        return self._answer

    async def _ask(self) -> ProbeAnswer:
        if self.settings.provider == NONE:
            return ProbeAnswer(None, skipped(OFF))
        if self.provider is None:
            return ProbeAnswer(None, skipped("no provider is configured"))
        if self.offline and describe_provider(self.settings.provider).is_remote:
            return ProbeAnswer(None, skipped("not asked: --offline"))
        timeout_s = min(self.settings.queue.call_timeout_s, LONGEST_PROBE_S)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                vector = await embed_canary(self.provider)
        except TimeoutError:
            silent = failed(
                f"the provider did not answer within {timeout_s:g} s",
                hint="Check embedding.base_url and the network; search uses keywords meanwhile.",
            )
            return ProbeAnswer(None, silent)
        except ProviderFailed as error:
            return ProbeAnswer(None, failed(error.message, hint=error.hint or "See the daemon's log."))
        milliseconds = (time.perf_counter() - began) * 1_000
        return ProbeAnswer(vector, passed(f"embedded a text in {milliseconds:.0f} ms"))


def make_embedding(
    settings: EmbeddingSettings, *, offline: bool, folder: Path | None = None, clock: Clock = wall_clock
) -> Embedding:
    """Create the configured provider, or record why it cannot be. Nothing is loaded or asked.

    Its cost is counted in the data folder, if there is one.
    """
    try:
        spending = open_spending(settings, folder, clock)
        provider = create_provider(settings, spending)
        return Embedding(settings=settings, provider=provider, spending=spending, offline=offline)
    except AgentctxError as error:
        return Embedding(settings=settings, provider=None, problem=error, offline=offline)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDaemon:
    """The current state of the daemon that examines itself."""

    expect_memory: Callable[[], str | None]
    """Return what is scarce, or None. Raises `ConfigInvalid` if the memory is too little to run on."""
    models: RunningModels = field(default_factory=dict)
    loop_lag: LoopLag
    write_fault: StorageFailed | None = None
    captures_refused: int = 0
    without_context: Sequence[WithoutContext] = ()
    queue_trouble: str | None = None
    """Why the queue embeds nothing at the moment; None if it does."""
    recheck_table: Callable[[], None] | None = None
    """Tells the queue that jobs were added to the table; None if nothing is embedded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A database, its model and the daemon that has them, if one runs."""

    settings: Settings
    path: Path
    server: str | None = None
    """The server that has the database; None if it is the file at `path`."""
    opening: Finding
    """The result of opening the database."""
    opened: Storage | None
    """None if it is not open; `not_opened` says why."""
    not_opened: str = ""
    embedding: Embedding
    calibration: CalibrationState | None = None
    """None without a model."""
    daemon: RunningDaemon | None = None
    """None if no daemon runs."""
    clock: Clock

    @property
    def storage(self) -> Storage:
        """The open database. Raises `Skip` if it is not open."""
        if self.opened is None:
            raise Skip(self.not_opened)
        return self.opened

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
        if self.daemon is not None and self.daemon.recheck_table is not None:
            self.daemon.recheck_table()
