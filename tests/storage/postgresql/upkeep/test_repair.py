"""Finding and repairing damage in PostgreSQL."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from agentctx.storage.postgresql.engine import PostgresqlStorage
from tests.storage.conformance import save
from tests.storage.drafts import keyless
from tests.storage.postgresql.saboteur import PostgresqlSaboteur
from tests.storage.postgresql.server import RunningServer
from tests.storage.repair_conformance import RepairConformance


@pytest.fixture
def saboteur(server: RunningServer, database: str) -> PostgresqlSaboteur:
    return PostgresqlSaboteur(server, urlsplit(database).path.removeprefix("/"))


class TestPostgresqlRepair(RepairConformance):
    """Runs the suite."""


async def test_an_index_that_lacks_a_row_is_found_and_rebuilt(
    storage: PostgresqlStorage, saboteur: PostgresqlSaboteur
) -> None:
    switch = """UPDATE pg_index SET indisready = {on}, indisvalid = {on}
        WHERE indexrelid = 'entries_live_id'::regclass"""
    saboteur.run("CREATE EXTENSION amcheck")
    assert await storage.upkeep.repair_file() is None
    saboteur.run(switch.format(on="false"))
    await save(storage, keyless("text"))
    saboteur.run(switch.format(on="true"))
    (problem,) = await storage.upkeep.check_integrity()
    assert problem.startswith("index entries_live_id: ")
    repaired = await storage.upkeep.repair_file()
    assert repaired is not None
    assert (repaired.entries, repaired.is_lossy) == (1, False)
    assert await storage.upkeep.check_integrity() == []
