"""Damage is found and repaired on PostgreSQL as on every engine."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.storage.postgresql.saboteur import PostgresqlSaboteur
from tests.storage.postgresql.server import RunningServer
from tests.storage.repair_conformance import CareConformance


@pytest.fixture
def saboteur(server: RunningServer, database: str) -> PostgresqlSaboteur:
    return PostgresqlSaboteur(server, urlsplit(database).path.removeprefix("/"))


class TestPostgresqlCare(CareConformance):
    """Runs the suite."""
