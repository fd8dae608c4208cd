"""Every suite finds no violation, and notices a deliberately broken build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctx_postgresql_tests.server import why_unavailable
from tests.durability import registry
from tests.durability.powercut_recording import strace_is_missing
from tests.durability.suite import Suite, report, say, smoke_n

SEED = 1
NEEDS_STRACE = ("powercut", "disk")
NEEDS_SERVER = ("postgresql", "shared_queue")
TOO_LONG = ("soak",)
"""Takes an hour; `make torture` runs it."""
LIMIT_S = 1200


def ci_n(suite: Suite) -> int:
    return suite.ci_n


SLOW = (pytest.mark.slow, pytest.mark.timeout(LIMIT_S))
TIERS = [pytest.param(smoke_n, id="smoke"), pytest.param(ci_n, id="ci", marks=SLOW)]


def suites() -> list[Any]:
    missing = strace_is_missing()
    without_strace = pytest.mark.skipif(bool(missing), reason=f"NO FAILING DISK WAS TESTED: {missing}")
    unserved = why_unavailable()
    without_server = pytest.mark.skipif(bool(unserved), reason=str(unserved))
    marks = {name: [without_server] for name in NEEDS_SERVER} | {
        name: [without_strace] for name in NEEDS_STRACE
    }
    return [
        pytest.param(name, marks=marks.get(name, [])) for name in registry.available() if name not in TOO_LONG
    ]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", suites())
def test_no_promise_is_broken(name: str, tier: Callable[[Suite], int], tmp_path: Path) -> None:
    suite = registry.suite_named(name)
    outcome = suite.run(tier(suite), seed=SEED, folder=tmp_path)
    say(report(suite, SEED, outcome))
    assert not outcome.violations, report(suite, SEED, outcome)
    assert outcome.n >= tier(suite)


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", suites())
def test_a_broken_build_is_noticed(name: str, tmp_path: Path) -> None:
    suite = registry.suite_named(name)
    outcome = suite.control(seed=SEED, folder=tmp_path)
    say(report(suite, SEED, outcome))
    assert outcome.violations, f"{name} does not notice a broken build (seed {SEED})"
