from __future__ import annotations

from pathlib import Path

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import Settings
from agentctx.doctor.catalog import INNER_IDS
from agentctx.doctor.check import skipped
from agentctx.doctor.database import Opened
from agentctx.doctor.inner import Inside, inner_checks
from agentctx.doctor.provider import Embedding
from agentctx.storage.base import Storage
from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx.times import wall_clock


def inside(path: Path, storage: Storage | None) -> Inside:
    settings = Settings(embedding=EmbeddingSettings(provider="none"))
    return Inside(
        settings=settings,
        opened=Opened(path=path, storage=storage, opening=skipped("a"), reason="a"),
        embedding=Embedding(settings=settings.embedding, provider=None),
        clock=wall_clock,
    )


async def test_they_are_those_of_the_catalog_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "agentctx.db"
    assert tuple(check.id for check in inner_checks(inside(path, None))) == INNER_IDS
    storage = await SqliteStorage.open(path)
    try:
        assert tuple(check.id for check in inner_checks(inside(path, storage))) == INNER_IDS
    finally:
        await storage.close()
