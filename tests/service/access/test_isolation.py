"""No canary of one project reaches a user of another, over any route."""

from __future__ import annotations

from pathlib import Path

from agentctx.embedding.providers.fake import FakeProvider
from tests.running_core import running_core
from tests.service.access.isolation import application, fill, probe

NAMESPACES, CANARIES, READS, SEED = 50, 10, 600, 1


async def test_nobody_sees_a_foreign_canary(tmp_path: Path) -> None:
    async with running_core(tmp_path, FakeProvider(dimension=32)) as core:
        world = await fill(core, NAMESPACES, CANARIES)
        outcome = await probe(application(core, world), world, READS, SEED)
        broken = await probe(application(core, world, is_guarded=False), world, 60, SEED)
    assert outcome.leaks == [], f"{outcome.reads} reads, seed {SEED}"
    assert outcome.own > READS, "each user sees the own ones"
    assert set(outcome.statuses) == {200, 403, 404}
    assert broken.leaks, "without the guard they are seen"
