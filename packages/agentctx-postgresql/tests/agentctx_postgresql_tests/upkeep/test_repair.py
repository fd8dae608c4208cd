"""Finding and repairing damage in PostgreSQL."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from agentctx.errors import StorageCorrupt
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_postgresql_tests.saboteur import PostgresqlSaboteur
from agentctx_postgresql_tests.server import RunningServer
from agentctx_testing.conformance.storage.repair import RepairConformance
from agentctx_testing.drafts import keyless, save


@pytest.fixture
def saboteur(server: RunningServer, database: str) -> PostgresqlSaboteur:
    return PostgresqlSaboteur(server, urlsplit(database).path.removeprefix("/"))


class TestPostgresqlRepair(RepairConformance):
    """Runs the suite."""


async def test_what_acts_on_the_tables_without_being_ours_is_named(
    storage: PostgresqlStorage, saboteur: PostgresqlSaboteur
) -> None:
    saboteur.run(
        """CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER keeping BEFORE DELETE ON entries FOR EACH ROW EXECUTE FUNCTION keep();
        CREATE RULE twice AS ON INSERT TO entries DO ALSO DELETE FROM jobs;
        CREATE POLICY none ON chunks USING (false)"""
    )
    found = ["policy none on chunks", "rule twice on entries", "trigger keeping on entries"]
    assert await storage.upkeep.check_integrity() == [f"{each} is not agentctx's" for each in found]
    with pytest.raises(StorageCorrupt, match="trigger keeping on entries"):
        await storage.upkeep.repair_file()


async def test_an_index_that_lacks_a_row_is_found_and_rebuilt(
    storage: PostgresqlStorage, saboteur: PostgresqlSaboteur
) -> None:
    switch = """UPDATE pg_index SET indisready = {on}, indisvalid = {on}
        WHERE indexrelid = 'entries_live_id'::regclass"""
    saboteur.run("CREATE EXTENSION amcheck")
    assert not await storage.upkeep.repair_file()
    saboteur.run(switch.format(on="false"))
    await save(storage, keyless("text"))
    saboteur.run(switch.format(on="true"))
    (problem,) = await storage.upkeep.check_integrity()
    assert problem.startswith("index entries_live_id: ")
    assert await storage.upkeep.repair_file()
    assert await storage.upkeep.check_integrity() == []
