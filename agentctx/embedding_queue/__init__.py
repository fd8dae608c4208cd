"""The background queue that turns jobs into vectors.

The job table is the source of truth, never memory: what is here can be lost at any instant without loss.
`batch`, `retry`, `breaker` and `intake` decide and do no I/O; `worker` acts.
"""

from __future__ import annotations

from agentctx.embedding_queue.maintenance import maintain
from agentctx.embedding_queue.settlements import Outcome
from agentctx.embedding_queue.status import QueueStatus
from agentctx.embedding_queue.worker import EmbeddingQueue

__all__ = ["EmbeddingQueue", "Outcome", "QueueStatus", "maintain"]
