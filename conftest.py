"""Of all tests: shared fixtures, marks, and the distribution over processes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import structlog
import uvicorn
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests import made_once
from tests.amount import examples

if TYPE_CHECKING:
    from xdist.remote import Producer

ROOT: Final = Path(__file__).parent
_POSTGRESQL: Final = "packages/agentctx-postgresql/tests/agentctx_postgresql_tests"
MARKS: Final = {
    "tests/durability/": "durability",
    f"{_POSTGRESQL}/durability/": "durability",
    "tests/real_agents/": "agents",
    "tests/frameworks/": "agents",
    "tests/end_to_end/": "process",
    f"{_POSTGRESQL}/end_to_end/": "process",
    "tests/system/": "process",
    "tests/service/access/test_foreign_users.py": "process",
    "tests/daemon/host/test_systemd.py": "process",
    "tests/supply_chain/test_wheel.py": "wheel",
    "tests/embedding/vector_stores/test_chroma.py": "chroma",
}
"""The mark of a file or folder. Marked tests take longest, so they start first."""
SEPARABLE: Final = ("tests/durability/test_suites.py",)
"""Files whose tests are independent, and take too long for one process to run them all."""
MEMORY_BYTES: Final = 4 << 30
"""Twice what all tests leave in folders for temporary files."""

# The settings of a developer's own daemon must not reach the tests' daemons.
for _name in [name for name in os.environ if name.upper().startswith("AGENTCTX_")]:
    del os.environ[_name]
# Nor must the place of this repository decide where commands look.
os.environ["AGENTCTX_NAMESPACE"] = "default"

# Thousands of tests would wait for a disk. The memory of `/dev/shm` is small in some containers.
if Path("/dev/shm").is_dir():  # noqa: S108 - each test makes a folder of its own
    _memory = os.statvfs("/dev/shm")  # noqa: S108
    if _memory.f_bavail * _memory.f_frsize >= MEMORY_BYTES and not _memory.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("TMPDIR", "/dev/shm")  # noqa: S108
        tempfile.tempdir = None

# A machine's speed is not a property of the code.
settings.register_profile(
    "agentctx", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.load_profile("agentctx")


class _Hasty:
    """`asyncio` for uvicorn, which sleeps a tenth of a second between looks whether to stop."""

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(delay: float) -> None:
        await asyncio.sleep(delay / 20)


# Hundreds of tests stop a server that runs in their process.
vars(uvicorn.server)["asyncio"] = _Hasty()
made_once.share()


class Scheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """A process takes whole files, so that module fixtures are created once."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return nodeid if file in SEPARABLE else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


# What is imported and collected stays: hundreds of megabytes that need not be walked again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


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


@pytest.fixture
def own_state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a daemon in this process notes of its database out of the developer's home."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    with logging_kept():
        yield


@contextmanager
def logging_kept() -> Iterator[None]:
    """Undo at the end what is configured of logging meanwhile."""
    loggers = [logging.getLogger(name) for name in ("", "agentctx", "uvicorn")]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    configure = structlog.configure
    # A logger that was used would keep what is configured now.
    vars(structlog)["configure"] = lambda **given: configure(**given | {"cache_logger_on_first_use": False})
    yield
    vars(structlog)["configure"] = configure
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    structlog.reset_defaults()
