"""The rules find violations and accept correct code; `make lint` checks the program."""

from __future__ import annotations

import pytest

from tests.code_rules.check import judged, repeated_class_names
from tests.code_rules.rules import RULES, Source, Violation, violations

NEAR = "agentctx/storage/x.py"
FAR = "agentctx/ingest/x.py"

BAD = {
    "self-executing format": [
        "import pickle",
        "import dill as d",
        "from marshal import loads",
        "import shelve",
        "importlib.import_module('pickle')",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "np.load(file, allow_pickle=True)",
    ],
    "text run as code": ["eval(text)", "exec(text)", "compile(text, 'f', 'exec')", "__import__(name)"],
    "shell": [
        "os.system('ls')",
        "os.popen(command)",
        "subprocess.run(command, shell=True)",
        "subprocess.Popen(command, shell=flag)",
        "asyncio.create_subprocess_shell(command)",
        "subprocess.getoutput(command)",
    ],
    "SQL that is built": [
        'conn.execute(f"SELECT * FROM t WHERE x = {value}")',
        'conn.execute("SELECT * FROM t WHERE x = %s" % value)',
        'conn.execute("SELECT * FROM t WHERE x = " + value)',
        'conn.execute("SELECT * FROM {}".format(table))',
        'conn.execute(" ".join(parts))',
        'conn.executemany(f"INSERT INTO {table} VALUES (?)", rows)',
        "conn.executescript(f'PRAGMA {pragma}')",
        'conn.execute(f"SELECT {SELECT} FROM {table}")',
        'self._conn.execute(f"{SELECT} WHERE x = {value}")  # noqa: S608',
        "conn.execute(TEMPLATE.format(table=table))",
        *(f'await conn.{method}(f"SELECT {{x}}")' for method in ("fetch", "fetchrow", "fetchval", "cursor")),
    ],
    "SQLite driver imported": [
        "import sqlite3",
        "from pysqlite3 import connect",
        "import aiosqlite",
        "importlib.import_module('pysqlite3')",
    ],
    "file opened near the database": [
        "def f():\n    open(path)",
        "def f():\n    path.read_bytes()",
        "class A:\n    def f(self):\n        self.path.read_text(encoding='utf-8')",
        "def f():\n    os.open(path, os.O_RDONLY)",
        "def f():\n    path.open('rb')",
        "def f():\n    with path.open() as file:\n        pass",
        "def f():\n    shutil.copyfile(path, target)",
        "def f():\n    read_bounded(path)",
    ],
    "HTTP client without both trust_env and follow_redirects": [
        "httpx.AsyncClient()",
        "httpx.Client(trust_env=False)",
        "httpx.get(url, follow_redirects=False)",
        "httpx.stream('GET', url)",
    ],
    "unusual phrase": [
        'raise ValueError("it is no number")',
        'put(f"{name} is no size")',
        'def f():\n    """Build it anew."""',
        '"""What whoever asks is told."""',
        'HELP = "the run goes on"',
        '"""Killed amid a write."""',
    ],
    "error message that is not a sentence": [
        'raise NotFound("no such entry.")',
        'raise NotFound("No such entry")',
        'raise errors.InvalidInput(f"the limit is {limit}.")',
        'raise StorageFailed(f"Cannot read {path}: check it")',
    ],
    "class named by a bare participle": [
        "class Found: ...",
        "class _Kept:\n    x: int",
        "class Cooling(Base): ...",
        "def f():\n    class _Waiting: ...",
    ],
}
FINE = [
    "import json, tomllib",
    "yaml.safe_load(text)",
    "np.load(file)",
    "np.load(file, allow_pickle=False)",
    "re.compile(text)",
    "model.eval()",
    "subprocess.run([program], check=True)",
    "subprocess.run([program], shell=False)",
    'conn.execute("SELECT * FROM t WHERE x = ?", (value,))',
    "conn.execute(_SELECT, (value,))",
    'conn.execute(f"{_SELECT} WHERE x = ?", (value,))',
    'conn.execute(SELECT + " WHERE x = ?", (value,))',
    'conn.execute(f"DROP TABLE {quoted(name)}")',
    "conn.execute(_TEMPLATE.format(table=vec0.quoted(name)))",
    'conn.execute(f"SELECT x FROM vec_{int(space)}")',
    'conn.execute(f"SELECT {x}")  # noqa: S608 - a constant',
    'conn.execute(\n    f"""SELECT 1\n    {x}""",  # noqa: S608 - a constant\n)',
    "SqliteStorage.open(path)",
    "httpx.AsyncClient(trust_env=False, follow_redirects=False)",
    '"""There is no file, or it is no longer ours."""',
    "told = 1  # a name is not a message",
    'raise NotFound(f"Entry {entry!r} does not exist.")',
    'raise InvalidInput(f"{name!r} is not a size.")',
    'raise InvalidInput("embedding.model is empty.")',
    'raise StorageFailed(f"Cannot read {path}: {error}")',
    "raise AgentctxError(message)",
    "class FoundFile: ...\nclass _OpenBreaker: ...\nclass Embedding: ...\nclass Step: ...",
]


def found(code: str, path: str = NEAR) -> list[str]:
    return [each.rule for each in violations(Source(path, code))]


@pytest.mark.parametrize(("rule", "code"), [(rule, code) for rule, codes in BAD.items() for code in codes])
def test_finds(rule: str, code: str) -> None:
    assert rule in found(code)


def test_every_rule_has_examples() -> None:
    assert set(BAD) == set(RULES)


@pytest.mark.parametrize("code", FINE)
def test_leaves_alone(code: str) -> None:
    assert found(code) == []


def test_files_may_be_opened_where_the_database_is_not_known() -> None:
    assert found("def f():\n    open(path)", FAR) == []


def test_names_the_place() -> None:
    (violation,) = violations(Source(NEAR, "class A:\n    def f(self):\n        open(self.path)"))
    assert str(violation) == f"{NEAR}:3: file opened near the database: A.f"


def test_an_obsolete_exception_is_reported() -> None:
    there = Violation("shell", NEAR, 1, "os.system")
    assert judged([there], {("shell", NEAR, "os.system"): "why"}) == []
    assert judged([], {("shell", NEAR, "os.system"): "why"}) == [
        f"{NEAR}: allowed, but not there any more: shell: os.system"
    ]
    assert judged([there], {}) == [f"{NEAR}:1: shell: os.system"]


def test_a_class_name_that_is_used_twice_is_found_in_both_places() -> None:
    one = Source(NEAR, "class Plan: ...\nclass _Plan: ...")
    other = Source(FAR, "\nclass Plan: ...\nclass _Plan: ...")
    assert repeated_class_names([one, other]) == [f"{NEAR}:1, {FAR}:2: class name that stands twice: Plan"]
    assert repeated_class_names([one]) == []
