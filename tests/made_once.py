"""What a process of the tests makes once: making it for every test would take a third of their time."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from httpx._config import create_ssl_context
from httpx._transports import default

from agentctx.service.rag import calibrator
from agentctx.service.rag.calibration import calibration_texts
from agentctx.storage.file.migrate import MigrationResult, migrate_database
from agentctx.storage.sqlite import engine
from agentctx.text.redaction import redactor
from agentctx.text.redaction.rules import SecretRules, load_rules
from agentctx.times import Clock

_FIRST: Final[list[tuple[MigrationResult, bytes]]] = []


def share() -> None:
    """Put what is made once in place of what makes it."""
    vars(default)["create_ssl_context"] = cache(create_ssl_context)
    vars(calibrator)["calibration_texts"] = cache(calibration_texts)
    vars(redactor)["load_rules"] = _load_rules
    vars(engine)["migrate"] = SimpleNamespace(migrate_database=_copy_first)
    # asyncio replaces the default handler in each run, which formats the result of the run's task.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


_our_rules = cache(load_rules)


def _load_rules(own: Path | None, *, disabled: Collection[str]) -> SecretRules:
    return load_rules(own, disabled=disabled) if own else _our_rules(disabled=tuple(disabled))


def _copy_first(path: Path, *, clock: Clock) -> MigrationResult:
    """Migrate a database, or make a new one as a copy of the first new one."""
    if os.path.lexists(path):
        return migrate_database(path, clock=clock)
    if not _FIRST:
        result = migrate_database(path, clock=clock)
        _FIRST.append((result, path.read_bytes()))
        return result
    result, content = _FIRST[0]
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
    except OSError:
        return migrate_database(path, clock=clock)
    return result
