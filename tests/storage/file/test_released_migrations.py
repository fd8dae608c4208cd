"""A migration that databases have recorded never changes, not even in a comment: they would not open."""

from __future__ import annotations

from typing import Final

from agentctx.storage.file.migrate import load_migrations
from agentctx_postgresql.migrate import load_schema

SQLITE: Final = {1: "014b91d92ebc6c2559bf18a3be85c31a1267e4de4a0fe20db22e33c7a7d04083"}
POSTGRESQL: Final = {1: "dc3345e47532fd66d46004edcbf2be001fdf6e743732df029715518990da6c2e"}


def test_a_change_of_the_schema_is_a_new_migration() -> None:
    sqlite = {each.version: each.checksum for each in load_migrations()}
    postgresql = {each.version: each.sha256 for each in load_schema()}
    assert sqlite | SQLITE == sqlite, "Add a migration instead."
    assert postgresql | POSTGRESQL == postgresql, "Add a migration instead."
