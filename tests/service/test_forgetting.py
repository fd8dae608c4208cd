"""What is removed with a forgotten entry, and what a forget reports about the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentctx.config.schema import BackupSettings
from agentctx.daemon.build import Core
from agentctx.service.forgetting import BackupCopies, backup_copies
from agentctx.storage.audit import AuditQuery
from agentctx.storage.backups import scheduled_name
from agentctx.storage.search import Filter
from agentctx.times import wall_clock
from tests.running_core import ME, running_core, save

FACT = "The staging database password rotates on the first Monday of each month."


async def capture(core: Core, content: str, **fields: Any) -> str:
    kept = {"session": "s", "origin": "capture", **fields}
    return (await save(core, "observation", content=content, **kept)).id


async def test_captured_copies_are_listed_and_only_forgotten_on_request(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        entry = await save(core, key="k", content=FACT)
        copy = await capture(core, f"You asked about it. {FACT} Anything else?")
        await capture(core, "The garden needs water on the first Monday that is dry.")
        await capture(core, FACT, origin="user")
        reply = await core.service.forget(entry.id, ME)
        assert (reply.copies, reply.copies_forgotten) == ([copy], [])
        entry = await save(core, key="k", content=FACT)
        reply = await core.service.forget(entry.id, ME, with_copies=True)
        assert (reply.copies, reply.copies_forgotten) == ([], [copy])
        assert await core.storage.entries.get(copy) is None


async def test_forgets_are_recorded_without_key_and_content(tmp_path: Path) -> None:
    now = wall_clock()
    async with running_core(tmp_path, None, clock=lambda: now) as core:
        entry = await save(core, key="the secret key", content=FACT)
        expiring = await save(core, key="short", content="soon over", ttl="1s")
        await core.service.forget(entry.id, ME)
        now += 2_000
        await core.storage.entries.sweep()
        rows = await core.storage.audit.page(AuditQuery(limit=2))
    recorded = [(row.kind, row.principal, row.subject, row.detail) for row in reversed(rows)]
    detail = '{"collection":"knowledge"}'
    assert recorded == [("forget", ME.uid, entry.id, detail), ("expire", None, expiring.id, detail)]


async def test_listeners_are_notified_of_forgotten_and_expired_entries(tmp_path: Path) -> None:
    announced: list[str] = []
    now = wall_clock()
    async with running_core(tmp_path, None, clock=lambda: now) as core:
        core.storage.entries.on_erased(announced.extend)
        one, two, three = [
            (await save(core, key=key, content="x", ttl=ttl)).id
            for key, ttl in (("a", None), ("b", "1s"), ("c", "1s"))
        ]
        await core.service.forget(one, ME)
        now += 2_000
        await save(core, key="b", content="y")
        await core.storage.entries.sweep()
        assert (await core.storage.entries.list_entries(Filter(namespace="default"), limit=9))[0][
            0
        ].key == "b"
    assert announced == [one, two, three]


def test_backups_with_a_forgotten_entry_are_counted_with_their_age_and_expiry(tmp_path: Path) -> None:
    settings = BackupSettings(interval_h=24, keep=7)
    assert backup_copies(settings, tmp_path, now=0) == BackupCopies()
    folder = tmp_path / "backups"
    folder.mkdir()

    def make(path: Path, made: int) -> None:
        path.touch()
        os.utime(path, (made, made))

    make(folder / scheduled_name(1_000_000), 1_000)
    make(folder / scheduled_name(2_000_000), 2_000)
    make(tmp_path / "agentctx.db", 500)
    day = 86_400_000
    assert backup_copies(settings, tmp_path, now=5) == BackupCopies(2, 1_000_000, 5 + 7 * day)
    assert backup_copies(BackupSettings(keep=7), tmp_path, now=5) == BackupCopies(2, 1_000_000, None)
    make(tmp_path / "agentctx.db.before-restore-20261118T110640000Z", 700)
    make(tmp_path / "agentctx.db.before-restore-20261118T110640000Z-wal", 600)
    assert backup_copies(settings, tmp_path, now=5) == BackupCopies(3, 700_000, None), (
        "nothing removes that copy"
    )
