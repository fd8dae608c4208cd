"""What tests of several packages share, how they are marked, and how they are spread over processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests import chroma_server
from tests.ports import free_port

if TYPE_CHECKING:
    from xdist.remote import Producer

ROOT: Final = Path(__file__).parent
MARKS: Final = {
    "durability/": "durability",
    "end_to_end/": "process",
    "system/": "process",
    "access/test_foreign_users.py": "process",
    "host/test_systemd.py": "process",
    "storage/test_opening.py": "chroma",
    "storage/test_outside.py": "chroma",
    "supply_chain/test_wheel.py": "wheel",
    "vector_stores/test_chroma.py": "chroma",
    "vector_stores/test_chroma_spaces.py": "chroma",
}
"""The mark of a file or folder. What has one takes longest, so it starts first."""
ONE_CHROMA_SERVER: Final = (
    "tests/storage/test_opening.py",
    "tests/vector_stores/test_chroma.py",
    "tests/vector_stores/test_chroma_spaces.py",
)
SEPARABLE: Final = ("tests/durability/test_suites.py",)
"""Files whose tests share nothing, and take so long that one process should not run them all."""

# How fast a machine is, is no property of the code.
settings.register_profile("agentctx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentctx")


class Scheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """A process takes whole files, so that fixtures of modules are made once."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        if file in SEPARABLE:
            return nodeid
        return "one Chroma server" if file in ONE_CHROMA_SERVER else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := mark_of(item.path):
            item.add_marker(mark)
    items.sort(key=lambda item: mark_of(item.path) == "")


def mark_of(path: Path) -> str:
    place = path.relative_to(ROOT).as_posix()
    return next((mark for prefix, mark in MARKS.items() if place.startswith(prefix)), "")


@pytest.fixture(scope="session", autouse=True)
def _children_get_default_signals() -> None:
    """A program inherits ignored signals (SIGHUP under `nohup`, SIGINT of a background job), not caught ones.

    Except for SIGINT, what was ignored still does nothing to the tests themselves.
    """
    for number, handler in {
        signal.SIGHUP: lambda *_: None,
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: lambda *_: None,
    }.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def chroma_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Chroma server, one for all tests."""
    port = free_port()
    with chroma_server.running(tmp_path_factory.mktemp("chroma-server"), port):
        yield port
