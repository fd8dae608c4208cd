"""One pass over a folder, for tests."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

from agentctx.ingest.delivery import IngestTarget, IngestTask
from agentctx.ingest.known import Labels
from agentctx.ingest.progress import IngestProgress
from agentctx.ingest.report import Report
from agentctx.ingest.run import absolute, run_pass
from agentctx.ingest.unread import MissingPolicy
from agentctx.ingest.walk import WalkSelection
from tests.ingest.memory import Memory


def task_for(
    *roots: Path,
    labels: Labels | None = None,
    dry_run: bool = False,
    policy: MissingPolicy = MissingPolicy.WITHDRAW,
    encoding: str | None = None,
    settle_s: float = 0.0,
    **selection: Any,
) -> IngestTask:
    target = IngestTarget("knowledge", "default", labels or Labels())
    return IngestTask(
        absolute(roots), WalkSelection(**selection), target, dry_run, policy, encoding, settle_s
    )


def ingested(
    memory: Memory,
    *roots: Path,
    stop: Event | None = None,
    scopes: list[str] | None = None,
    **task: Any,
) -> Report:
    """The report of a pass that raised nothing."""
    report = Report()
    stop = stop or Event()
    run_pass(memory, task_for(*roots, **task), report, IngestProgress(), stop, scopes=scopes)
    return report


def counts(report: Report) -> dict[str, int]:
    """Those that are not 0."""
    return {name: count for name, count in report.counts().items() if count}
