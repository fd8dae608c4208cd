"""Export a memory as the lines of a file, and import them into another memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentctx.cli.export_format import entry_line, read_entry
from agentctx.daemon.build import Core
from agentctx.errors import AgentctxError, Expired
from agentctx.times import parse_time
from agentctx.wire import ExportedEntry, ImportRequest, SaveResult
from agentctx_testing.drafts import ManualClock
from tests.running_core import ME, running_core

PAGE = 7
BATCH = 5
"""Lines per request."""
_OF_THE_MACHINE = ("origin", "trust", "principal", "embedding", "flags")
"""Fields that an import does not trust, or creates itself."""


async def differences(core: Core, folder: Path, *, now: int) -> list[str]:
    """Return what differs after moving everything to an empty memory in `folder` whose clock says `now`."""
    leaving = await exported(core)
    async with running_core(folder, None, clock=ManualClock(now)) as target:
        await imported(target, leaving)
        before, after = unexpired(leaving, now), unexpired(await exported(target), now)
        again = [each.id for each in await imported(target, leaving) if each.changed]
    return [
        *(
            f"{before.get(each)} became {after.get(each)}"
            for each in before | after
            if before.get(each) != after.get(each)
        ),
        *(f"{each} changed when it was imported twice" for each in again),
    ]


async def exported(core: Core) -> list[ExportedEntry]:
    """Return all entries with their history."""
    found: list[ExportedEntry] = []
    cursor: str | None = None
    while True:
        page = await core.transfer.export(ME, history=True, limit=PAGE, cursor=cursor)
        found, cursor = [*found, *page.entries], page.next
        if cursor is None:
            return found


async def imported(core: Core, entries: Sequence[ExportedEntry]) -> list[SaveResult]:
    """Import the lines of an export; return the results except of expired entries. Raises any other error."""
    results: list[SaveResult] = []
    lines = [entry_line(each) for each in entries]
    for start in range(0, len(lines), BATCH):
        versions = [version for line in lines[start : start + BATCH] for version in read_entry(line)]
        for result in await core.transfer.import_entries(ImportRequest(entries=versions), ME):
            if isinstance(result, AgentctxError) and not isinstance(result, Expired):
                raise result
            results += [result] if isinstance(result, SaveResult) else []
    return results


def unexpired(entries: Sequence[ExportedEntry], now: int) -> dict[str, dict[str, Any]]:
    """Return what must exist of an export at a time, by id. A replaced version does not expire."""
    found: dict[str, dict[str, Any]] = {}
    for each in entries:
        live, older = _state(asdict(each.entry)), [_state(asdict(version)) for version in each.versions]
        for version in older:
            version["key"] = live["key"]  # a replaced version of a learning gets the key of the live one
        if not _is_over(live, now):
            for version in older:
                version["expires"] = None if _is_over(version, now) else version["expires"]
            found[each.entry.id] = {"chunks": each.chunks, "live": live, "older": older}
    return found


def _state(view: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in view.items() if name not in _OF_THE_MACHINE}


def _is_over(view: dict[str, Any], now: int) -> bool:
    return view["expires"] is not None and parse_time(view["expires"], now=now) <= now
