"""Compares the schema of a database file with what the migrations make. Its statements are only data here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from agentctx.storage.file.driver import Connection

Words: TypeAlias = tuple[bytes, ...]
Schema: TypeAlias = Mapping[str, Words]
"""The significant words of the SQL of each table, index and view, by name."""
KnownSchema: TypeAlias = Mapping[str, AbstractSet[Words]]
"""All definitions that each object of the migrations has had, by name."""

_SELECT: Final = "SELECT type, name, CAST(sql AS BLOB) FROM sqlite_schema"
_SQL_WORD: Final = re.compile(
    rb"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|\w+|\S""", re.DOTALL
)
_QUOTED: Final = re.compile(rb'"(\w+)"')
_BY_RULE: Final = re.compile(
    r"sqlite_(?:sequence|stat[1-4])|chunk_fts(?:_next)?_(?:data|idx|docsize|config|content)"
    r"|vec_\d+_(?:info|chunks|rowids|auxiliary|vector_chunks\d\d|metadatachunks\d\d|metadatatext\d\d)"
)
"""The tables that SQLite, FTS5 and vec0 make for themselves, in any version."""
_VECTORS: Final = re.compile(r"vec_\d+")
_MADE_LATER: Final = re.compile(r"chunk_fts|vec_\d|sqlite_stat")
_WORDS: Final = "chunk_fts"
_NEXT_WORDS: Final = "chunk_fts_next"
"""The keyword index while it is built again."""
_ACTING: Final = frozenset({b"check", b"generated", b"as", b"default", b"references", b"select"})
"""Words with which the definition of a table would contain more than columns."""
_SHOWN_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class SchemaObject:
    """A row of a database's schema. `words` is empty for an index that SQLite made for a constraint."""

    kind: str
    name: str
    words: Words
    is_changed: bool = False
    """Whether agentctx makes an object of this name, but not with this definition."""

    def __str__(self) -> str:
        kind = self.kind if self.kind in _KINDS else "object"
        shown = self.name.encode("unicode_escape").decode()[:_SHOWN_CHARS]
        return f"{kind} {shown} (changed)" if self.is_changed else f"{kind} {shown}"


_KINDS: Final = frozenset({"table", "index", "view", "trigger"})


def schema_objects(conn: Connection) -> list[SchemaObject]:
    """Return everything that the schema of a database defines. Reads nothing else."""
    return [
        SchemaObject(str(kind), str(name), () if sql is None else schema_words(sql))
        for kind, name, sql in conn.execute(_SELECT)
    ]


def foreign_objects(objects: Iterable[SchemaObject], known: KnownSchema) -> list[SchemaObject]:
    """Return the objects that agentctx did not make; one with another definition is foreign too."""
    return [
        replace(each, is_changed=each.name in known)
        for each in objects
        if each.words not in known.get(each.name, ()) and not _is_by_rule(each, known)
    ]


def _is_by_rule(each: SchemaObject, known: KnownSchema) -> bool:
    """Return whether an object is made without a migration. SQLite goes by the SQL, so this does as well."""
    if not each.words:
        return each.kind == "index"
    name = each.name.encode()
    if each.name == _NEXT_WORDS:
        as_current = tuple(_WORDS.encode() if word == name else word for word in each.words)
        return as_current in known.get(_WORDS, ())
    if _VECTORS.fullmatch(each.name):
        return each.words[:6] == (b"create", b"virtual", b"table", name, b"using", b"vec0")
    begins = [word.strip(b"'") for word in each.words[:4]]  # FTS5 quotes the names of its tables as strings
    is_table = begins == [b"create", b"table", name, b"("]
    return bool(is_table and _BY_RULE.fullmatch(each.name) and _ACTING.isdisjoint(each.words))


def lasting_schema(objects: Iterable[SchemaObject]) -> Schema:
    """Return the schema without what is made, and made again, later: the indexes of words and of vectors."""
    return {each.name: each.words for each in objects if each.words and not _MADE_LATER.match(each.name)}


def schema_problems(stored: Schema, intended: Schema) -> Iterator[str]:
    """Yield the missing and different parts of the intended schema; additional parts are ignored."""
    for name, words in intended.items():
        if name not in stored:
            yield f"{name} is missing"
        elif stored[name] != words:
            yield f"the schema of {name} was changed"


@lru_cache(maxsize=512)
def schema_words(sql: bytes) -> Words:
    """Return the significant words of a schema's SQL: lower case, without comments, spaces or quoting."""
    words = (word for word in _SQL_WORD.findall(sql) if not word.startswith((b"--", b"/*")))
    return tuple(map(_plain, words))


def _plain(word: bytes) -> bytes:
    if word.startswith(b"'"):
        return word
    return _QUOTED.sub(rb"\1", word).lower()  # SQLite quotes the names of tables that it renames
