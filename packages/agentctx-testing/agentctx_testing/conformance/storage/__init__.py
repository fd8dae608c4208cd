"""The suite of storage engines, one module for each part.

Subclasses need two fixtures: `clock`, an `agentctx_testing.drafts.ManualClock`, and `storage`, an empty open
engine that reads the time from it. `repair.RepairConformance` also needs a `saboteur`.
"""

from __future__ import annotations

from agentctx_testing.conformance.storage.conversations import ConversationConformance
from agentctx_testing.conformance.storage.cues import CueConformance
from agentctx_testing.conformance.storage.entries import EntryConformance
from agentctx_testing.conformance.storage.file_states import FileStatesConformance
from agentctx_testing.conformance.storage.injections import InjectionsConformance
from agentctx_testing.conformance.storage.quarantine import QuarantineConformance
from agentctx_testing.conformance.storage.queue import QueueConformance
from agentctx_testing.conformance.storage.review import ReviewConformance
from agentctx_testing.conformance.storage.saves import SaveConformance
from agentctx_testing.conformance.storage.search import SearchConformance
from agentctx_testing.conformance.storage.spaces import SpaceConformance
from agentctx_testing.conformance.storage.supersession import SupersessionConformance


class StorageConformance(
    SaveConformance,
    EntryConformance,
    SearchConformance,
    CueConformance,
    ConversationConformance,
    QueueConformance,
    SpaceConformance,
    QuarantineConformance,
    ReviewConformance,
    FileStatesConformance,
    InjectionsConformance,
    SupersessionConformance,
):
    """Everything that an engine promises, but for the repair of damage."""
