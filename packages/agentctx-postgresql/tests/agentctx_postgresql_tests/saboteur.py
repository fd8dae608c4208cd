"""Damages a PostgreSQL database from outside, with plain SQL."""

# ruff: noqa: S608 - table names cannot be bound
from __future__ import annotations

from agentctx_postgresql_tests.server import RunningServer


class PostgresqlSaboteur:
    """See `repair.Saboteur` of the suite."""

    def __init__(self, server: RunningServer, database: str) -> None:
        self._server = server
        self._database = database

    def run(self, *statements: str) -> str:
        """Run statements without checking foreign keys."""
        sql = ";".join(("SET session_replication_role = replica", *statements))
        return self._server.sql(sql, self._database)

    def remove_words(self, chunk: int) -> None:
        self.run(f"DELETE FROM chunk_words WHERE chunk = {chunk}")

    def garble_words(self, chunk: int) -> None:
        self.run(f"UPDATE chunk_words SET words = '''zzz'':1' WHERE chunk = {chunk}")

    def remove_job(self, chunk: int) -> None:
        self.run(f"DELETE FROM jobs WHERE chunk = {chunk}")

    def add_job(self, chunk: int) -> None:
        self.run(
            f"INSERT INTO jobs (chunk, space, hash, created) SELECT {chunk}, min(id), '\\x00', 0 FROM spaces"
        )

    def remove_vector(self, space: int, chunk: int) -> None:
        self.run(f"DELETE FROM vec_{space} WHERE chunk = {chunk}")

    def add_vector(self, space: int, chunk: int) -> None:
        self.run(
            f"""INSERT INTO vec_{space} (chunk, namespace, embedding)
                SELECT {chunk}, coalesce((SELECT e.namespace FROM chunks c JOIN entries e ON e.seq = c.entry
                                          WHERE c.id = {chunk}), 'x'),
                  ('[1' || repeat(',0', dimension - 1) || ']')::halfvec FROM spaces WHERE id = {space}"""
        )

    def corrupt_vector(self, space: int, chunk: int) -> None:
        """Set all components to zero: halfvec does not accept NaN."""
        self.run(f"UPDATE vec_{space} SET embedding = embedding - embedding WHERE chunk = {chunk}")

    def drop_vectors(self, space: int) -> None:
        self.run(f"DROP TABLE vec_{space}")

    def add_orphan_chunk(self, chunk: int) -> int:
        added = self.run(
            f"""WITH added AS (
                  INSERT INTO chunks (entry, ordinal, start_at, end_at, hash, chunking)
                  SELECT old.seq, 0, 0, 2, '\\x00', 1 FROM chunks c JOIN entries e ON e.seq = c.entry
                  JOIN entries old ON old.id = e.id AND NOT old.live WHERE c.id = {chunk} LIMIT 1
                  RETURNING id),
                worded AS (
                  INSERT INTO chunk_words (chunk, namespace, words, weights)
                  SELECT id, 'default', '''an'':1', '{{1:1}}/1000000000' FROM added)
                SELECT id FROM added"""
        )
        return int(added.split()[-1])

    def remove_chunk(self, chunk: int) -> None:
        self.run(f"DELETE FROM chunks WHERE id = {chunk}")
