"""The background queue that turns pending jobs into vectors.

The job table is the source of truth, so whatever is in memory can be lost at any time without loss of data.
`batch`, `retry`, `breaker` and `intake` decide and do no I/O; `worker` acts.
"""

from __future__ import annotations

from agentctx.embedding_queue.maintenance import maintain
from agentctx.embedding_queue.settlements import Outcome
from agentctx.embedding_queue.status import QueueStatus
from agentctx.embedding_queue.worker import EmbeddingQueue

__all__ = ["EmbeddingQueue", "Outcome", "QueueStatus", "maintain"]
