"""Examining and repairing a real database, inside a running core and alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.schema import Settings
from agentctx.daemon.build import Core
from agentctx.doctor.catalog import INNER_IDS
from agentctx.doctor.examination import examine_alone
from agentctx.embedding.providers.fake import FakeFault, FakeProvider
from agentctx.errors import Disposition, InvalidInput
from agentctx.storage.backups import scheduled_name
from agentctx.storage.file.driver import Connection
from agentctx.storage.offline import DATABASE_NAME
from agentctx.wire import CheckResult
from agentctx_testing.drafts import assert_sound
from tests.doctor import damage
from tests.doctor.damage import damaged
from tests.running_core import ME, embedded, running_core, save
from tests.storage.sqlite.upkeep.test_file_repair import root_of, zero_pages

TEXTS = ("red apple", "green pear", "blue plum")
LOST = {"embedding.self_retrieval": "fail"}
"""Repaired together with its cause."""
FAKE = Settings.model_validate({"embedding": {"provider": "fake"}})


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
async def core(tmp_path: Path, provider: FakeProvider) -> AsyncIterator[Core]:
    async with running_core(tmp_path, provider, settings=FAKE) as running:
        for number, text in enumerate(TEXTS):
            await save(running, key=f"k{number}", content=text)
        await embedded(running)
        yield running


async def examined(core: Core, *only: str, fix: bool = False) -> dict[str, CheckResult]:
    ask = core.examiner.doctor_fix if fix else core.examiner.doctor
    reply = await ask(ME, only=list(only))
    for text in TEXTS:
        assert text not in repr(reply)
    return {check.id: check for check in reply.checks}


def troubles(results: dict[str, CheckResult]) -> dict[str, str]:
    return {name: check.status for name, check in results.items() if check.status in {"warn", "fail"}}


async def test_a_sound_daemon_passes_every_check(core: Core) -> None:
    results = await examined(core)
    assert tuple(results) == INNER_IDS
    assert {check.id for check in results.values() if check.status != "pass"} == {
        "backup.age",
        "embedding.language",
        "rerank.answers",
    }


async def test_only_requested_checks_run(core: Core) -> None:
    assert set(await examined(core, "queue", "database.wal")) == {
        "database.wal",
        "queue.backlog",
        "queue.buried",
        "queue.leases",
    }
    with pytest.raises(InvalidInput, match="bogus"):
        await examined(core, "bogus")


@pytest.mark.parametrize(
    ("how", "faults", "repair"),
    [
        (damage.lose_a_vector, {"database.invariant": "fail"}, "made 1 missing job"),
        (damage.leave_an_orphan, {"database.invariant": "fail"}, "orphan"),
        (
            damage.lose_words,
            {"database.words": "fail", "database.invariant": "fail", **LOST},
            "3 chunks",
        ),
        (
            damage.scramble_vectors,
            {"database.vectors": "fail", "database.scrub": "fail", **LOST},
            "recreated 1 vector table",
        ),
        (damage.bury_everything, {"queue.buried": "warn"}, "put 3 jobs back"),
        (
            damage.leave_vectors_of_a_retired_model,
            {"embedding.fingerprints": "fail"},
            "removed 1 vector from models",
        ),
    ],
)
async def test_damage_is_found_and_repaired_while_the_queue_runs(
    core: Core, tmp_path: Path, how: Callable[[Connection], object], faults: dict[str, str], repair: str
) -> None:
    damaged(tmp_path / DATABASE_NAME, how)
    before = await examined(core)
    assert troubles(before) == faults
    assert all(before[name].fixable and before[name].fixed is None for name in faults.keys() - LOST.keys())

    repaired = await examined(core, fix=True)
    assert troubles(repaired) == {}
    assert repair in "".join(check.fixed or "" for check in repaired.values())

    # The running queue received the new jobs.
    await embedded(core)
    assert troubles(await examined(core)) == {}
    await assert_sound(core.storage)


async def test_a_space_of_another_model_than_the_running_one_is_noticed(core: Core, tmp_path: Path) -> None:
    damaged(tmp_path / DATABASE_NAME, damage.change_the_fingerprint)
    found = await examined(core, "embedding.fingerprints")
    assert troubles(found) == {"embedding.fingerprints": "fail"}
    assert not found["embedding.fingerprints"].fixable


async def test_a_model_that_changed_under_its_name_is_noticed(core: Core, tmp_path: Path) -> None:
    damaged(tmp_path / DATABASE_NAME, damage.replace_the_canary)
    assert troubles(await examined(core)) == {"embedding.canary": "fail"}


async def test_a_provider_in_trouble_is_reported_with_the_jobs_that_wait_for_it(
    core: Core, provider: FakeProvider
) -> None:
    provider.faults = [FakeFault.fails(Disposition.STOP)]
    await save(core, key="new", content="white grape")
    assert core.lanes is not None
    while core.lanes.leading.queue.status().state == "ok":  # noqa: ASYNC110 - the queue announces its trouble to nobody
        await asyncio.sleep(0)
    results = await examined(core)
    assert troubles(results) == {"queue.backlog": "warn", "embedding.answers": "fail"}
    assert results["queue.backlog"].detail == "The fake provider failed on request."
    assert results["embedding.canary"].status == "skip"


async def test_without_embedding_nothing_is_missing(tmp_path: Path) -> None:
    async with running_core(tmp_path, None) as core:
        await save(core, key="k", content="red apple")
        results = await examined(core)
    assert troubles(results) == {}
    assert results["embedding.provider"].status == "pass"
    assert results["embedding.canary"].status == "skip"


async def test_waiting_callers_share_the_next_examination(core: Core, provider: FakeProvider) -> None:
    asked = len(provider.calls)
    provider.hold()
    first = asyncio.create_task(core.examiner.doctor(ME))
    await provider.wait_until_held()
    waiting = [asyncio.create_task(core.examiner.doctor(ME)) for _ in range(3)]
    other = asyncio.create_task(core.examiner.doctor(ME, only=["queue"]))
    await asyncio.sleep(0)
    provider.release()
    replies = await asyncio.gather(*waiting)
    assert replies[0] is replies[1] is replies[2]
    assert replies[0] is not await first
    assert len((await other).checks) == 3
    assert len(provider.calls) - asked == 2


async def test_a_cancelled_caller_does_not_block_the_others(core: Core, provider: FakeProvider) -> None:
    provider.hold()
    first = asyncio.create_task(core.examiner.doctor(ME))
    await provider.wait_until_held()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    provider.release()
    assert troubles(await examined(core)) == {}


async def alone(folder: Path, settings: Settings = FAKE, **options: Any) -> dict[str, CheckResult]:
    results = await examine_alone(settings, folder / DATABASE_NAME, **options)
    return {result.id: result for result in results}


async def saved_alone(folder: Path) -> Path:
    """A database with three entries that no process has open."""
    async with running_core(folder, FakeProvider(), settings=FAKE) as core:
        for number, text in enumerate(TEXTS):
            await save(core, key=f"k{number}", content=text)
        await embedded(core)
    return folder / DATABASE_NAME


async def test_a_missing_database_is_skipped_and_never_made(tmp_path: Path) -> None:
    results = await alone(tmp_path, fix=True)
    assert results["database.opens"].message == "nothing is saved yet"
    assert troubles(results) == {}
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - pathlib is no better in a coroutine


async def test_a_sound_database_passes_alone(tmp_path: Path) -> None:
    await saved_alone(tmp_path)
    results = await alone(tmp_path)
    assert tuple(results) == INNER_IDS
    assert {check.id for check in results.values() if check.status != "pass"} == {
        "backup.age",
        "embedding.language",
        "rerank.answers",
        "running.memory",
        "running.loop",
        "running.writes",
        "running.captures",
    }


async def test_only_damaged_parts_are_repaired(tmp_path: Path) -> None:
    database = await saved_alone(tmp_path)
    damaged(database, damage.lose_a_vector)
    damaged(database, damage.lose_words)
    assert set(troubles(await alone(tmp_path))) == {
        "database.words",
        "database.invariant",
        *LOST,
    }
    assert troubles(await alone(tmp_path, fix=True)) == {}
    assert troubles(await alone(tmp_path)) == {}
    async with running_core(tmp_path, FakeProvider(), settings=FAKE) as core:
        await embedded(core)
        await assert_sound(core.storage)


@pytest.mark.parametrize(
    ("how", "status"), [(damage.write_a_newer_schema, "fail"), (damage.write_an_older_schema, "warn")]
)
async def test_a_database_of_another_schema_is_not_touched(
    tmp_path: Path, how: Callable[[Connection], object], status: str
) -> None:
    database = await saved_alone(tmp_path)
    damaged(database, how)
    before = database.read_bytes()
    results = await alone(tmp_path, fix=True)
    assert troubles(results) == {"database.schema": status}
    assert results["database.integrity"].status == "skip"
    assert database.read_bytes() == before


async def test_a_file_that_is_not_a_database_fails_and_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"my diary" * 1_000)
    results = await alone(tmp_path, fix=True)
    assert troubles(results) == {"database.opens": "fail", "database.schema": "fail"}
    assert (tmp_path / DATABASE_NAME).read_bytes() == b"my diary" * 1_000


async def test_a_database_that_somebody_has_is_not_opened(tmp_path: Path) -> None:
    await saved_alone(tmp_path)
    results = await alone(tmp_path, taken="somebody has it", fix=True)
    assert results["database.invariant"].message == "somebody has it"
    assert troubles(results) == {}


async def test_another_model_in_the_config_is_reported_before_the_daemon_acts_on_it(tmp_path: Path) -> None:
    await saved_alone(tmp_path)
    other = Settings.model_validate({"embedding": {"provider": "fake", "model": "other"}})
    results = await alone(tmp_path, other)
    assert troubles(results) == {"embedding.space": "warn"}
    assert results["embedding.space"].detail == "model: bag-of-words is now other"


async def test_a_damaged_page_is_repaired_under_the_running_daemon(core: Core, tmp_path: Path) -> None:
    await core.storage.upkeep.tidy()
    zero_pages(tmp_path / DATABASE_NAME, [root_of(tmp_path / DATABASE_NAME, "chunk_fts_data")])
    before = await examined(core)
    assert {"database.integrity", "database.words"} <= set(troubles(before))
    assert {check.status for check in before.values()} >= {"pass"}, "passing checks are reported too"
    repaired = await examined(core, fix=True)
    assert troubles(repaired) == {}
    assert repaired["database.integrity"].fixed == "made the damaged indexes again"
    await embedded(core)
    assert troubles(await examined(core)) == {}
    await assert_sound(core.storage)


async def test_where_only_a_backup_helps_the_newest_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    database = await saved_alone(tmp_path)
    newest = tmp_path / "backups" / scheduled_name(1_795_000_000_000)
    newest.parent.mkdir()
    newest.touch()
    zero_pages(database, [root_of(database, "jobs"), root_of(database, "chunk_fts_data")])
    before = database.read_bytes()
    found = await alone(tmp_path, fix=True)
    assert "the repair failed: The table jobs is damaged" in found["database.integrity"].detail
    assert "nothing is written into it" in found["database.words"].detail
    assert f"`agentctx restore {newest}`" in found["database.integrity"].hint
    assert database.read_bytes() == before


async def test_a_database_that_does_not_open_needs_a_backup(tmp_path: Path) -> None:
    database = await saved_alone(tmp_path)
    zero_pages(database, [root_of(database, "scrub")])
    found = await alone(tmp_path, fix=True)
    assert troubles(found) == {"database.opens": "fail"}
    assert "There is no automatic backup. If you have another" in found["database.opens"].hint
