"""The suites by name. Each module exports its suite as `SUITE` and is imported on demand."""

from __future__ import annotations

import importlib
import importlib.util
from typing import cast

from tests.durability.suite import Suite

MODULES = {
    "kill": "tests.durability.kill",
    "postgresql": "agentctx_postgresql_tests.durability.postgresql",
    "shared_queue": "agentctx_postgresql_tests.durability.shared_queue",
    "powercut": "tests.durability.powercut",
    "disk": "tests.durability.disk",
    "shutdown": "tests.durability.shutdown",
    "owners": "tests.durability.owners",
    "removals": "tests.durability.removals",
    "load": "tests.durability.load",
    "soak": "tests.durability.soak",
    "simulation": "tests.durability.simulation",
    "reembed": "tests.durability.reembed",
    "provider_faults": "tests.durability.provider_faults",
    "retries": "tests.durability.retries",
    "model": "tests.durability.model",
    "forgetting": "tests.durability.forgetting",
    "backup": "tests.durability.backup",
    "flips": "tests.durability.flips",
    "pages": "tests.durability.pages",
    "repair": "tests.durability.repair",
}


def suite_named(name: str) -> Suite:
    """Return the suite. Raises KeyError for an unknown name."""
    return cast("Suite", importlib.import_module(MODULES[name]).SUITE)


def available() -> list[str]:
    """Return the names of the suites whose modules exist."""
    return [name for name, module in MODULES.items() if importlib.util.find_spec(module) is not None]
