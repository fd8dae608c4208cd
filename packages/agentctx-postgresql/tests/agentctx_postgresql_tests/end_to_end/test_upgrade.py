from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentctx.config.load import load_settings
from agentctx.config.schema import Settings
from agentctx_postgresql import migrate
from agentctx_postgresql.migrate_to import MemoryLocation, open_source
from agentctx_postgresql_tests.server import running_server, why_unavailable
from tests.end_to_end.daemon_process import DaemonProcess
from tests.end_to_end.test_upgrade import KEEPS_ALL, NO_MODEL, check_answers
from tests.fixtures.answers import stored_rows
from tests.fixtures.releases import FORMER_TABLES, answers, sql_dump, without_added


def test_a_server_with_a_memory_of_0_1_0_answers_as_it_did_there(tmp_path: Path) -> None:
    if reason := why_unavailable():
        pytest.skip(reason)
    with running_server() as server:
        server.sql("CREATE DATABASE made")
        asyncio.run(load(server.url("made")))
        url = f'[storage]\nurl = "{server.url("made")}"\n'
        daemon = DaemonProcess(tmp_path, config=NO_MODEL + KEEPS_ALL + url)
        settings = load_settings(tmp_path / "agentctx.toml", {"data_dir": daemon.data_dir})
        assert without_added(asyncio.run(stored(settings))) == answers("sql")["stored"]
        check_answers(daemon, "sql")
        assert server.sql("SELECT version, name FROM schema_migrations", "made").startswith("1|core\n2|")


async def stored(settings: Settings) -> dict[str, Any]:
    async with open_source(MemoryLocation(settings, Path(), "")) as source:
        return await stored_rows(source, FORMER_TABLES)


async def load(url: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    await connection.execute(sql_dump())
    await connection.execute("RESET search_path")
    await migrate.migrate(connection, migrate.load_schema())
    await connection.close()
