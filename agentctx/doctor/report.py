"""Results of several places as one report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agentctx import __version__
from agentctx.doctor.catalog import position
from agentctx.wire import CheckResult, DoctorReply, DoctorSummary


def report(results: Iterable[CheckResult]) -> DoctorReply:
    """All results in the order of the catalog, and how many ended how."""
    checks = sorted(results, key=lambda result: position(result.id))
    counts = Counter(check.status for check in checks)
    return DoctorReply(
        version=__version__,
        ok=not counts["fail"],
        checks=checks,
        summary=DoctorSummary(
            passed=counts["pass"],
            warned=counts["warn"],
            failed=counts["fail"],
            skipped=counts["skip"],
        ),
    )
