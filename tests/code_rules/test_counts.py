"""What counts as a forwarding method and as an operation's file; exceeding either limit fails the check."""

from __future__ import annotations

import pytest

from tests.code_rules.counts import (
    MOST_FILES_OF_OPERATION,
    MOST_FORWARDS,
    files_of_operations,
    forwards,
    too_many,
)
from tests.code_rules.rules import Source

FORWARD = "def save(self, x): return self.inner.save(x)"


def source(code: str, path: str = "agentctx/service/x.py") -> Source:
    return Source(path, code)


@pytest.mark.parametrize(
    "code",
    [
        FORWARD,
        "def save(self, x):\n    'Save it.'\n    self.inner.save(x)",
        "async def save(self, *x, y=1): return await self.inner.save(*x, y=y)",
        "def save(self): return other.part.save()",
        "async def save(self, x): return await self.run(partial(engine.save, x))",
        "async def save(self): return await self.run(engine.save)",
    ],
)
def test_a_function_that_only_calls_its_namesake_forwards(code: str) -> None:
    assert forwards([source(code)]) == ["agentctx/service/x.py:1: only forwards: save"]


@pytest.mark.parametrize(
    "code",
    [
        "def save(self, x): return self.inner.store(x)",
        "def save(self, x): return self.inner.save(x + 1)",
        "def save(self, x): return self.inner.save(x, self.peer)",
        "def save(self, x):\n    check(x)\n    return self.inner.save(x)",
        "def __init__(self, x): super().__init__(x)",
        "def save(self, x): return [x]",
        "def save(self): return",
        "def save(self, x): ...",
    ],
)
def test_a_function_that_does_something_does_not(code: str) -> None:
    assert forwards([source(code)]) == []


@pytest.mark.parametrize(
    "code",
    [
        "def list_entries(): ...",
        "service.list_entries()",
        "names = {'list_entries'}",
        "from x import list_entries",
        "f(list_entries=1)",
        "def f(list_entries): ...",
        "list_entries = 1",
    ],
)
def test_a_name_of_several_words_counts_wherever_it_is(code: str) -> None:
    assert files_of_operations([source(code)], ["list_entries"]) == {
        "list_entries": ["agentctx/service/x.py"]
    }


def test_a_name_of_one_word_counts_where_it_is_defined() -> None:
    program = [
        source("async def search(): ...", "agentctx/client/x.py"),
        source("text.search('search')", "agentctx/cli/x.py"),
    ]
    assert files_of_operations(program, ["search"]) == {"search": ["agentctx/client/x.py"]}


def test_modules_below_the_operations_do_not_count() -> None:
    program = [source("def list_entries(): ...", "agentctx/storage/x.py")]
    assert files_of_operations(program, ["list_entries"]) == {"list_entries": []}


def test_one_more_than_allowed_is_a_problem() -> None:
    allowed = [source(f"{FORWARD}\n" * MOST_FORWARDS)]
    assert too_many(allowed, []) == []
    assert (
        too_many([*allowed, source(FORWARD)], [])[-1] == f"31 functions only forward, at most {MOST_FORWARDS}"
    )
    files = [source("import_entries()", f"agentctx/cli/{at}.py") for at in range(MOST_FILES_OF_OPERATION)]
    assert too_many(files, ["import_entries"]) == []
    [problem] = too_many([*files, source("import_entries()")], ["import_entries"])
    assert problem.startswith("import_entries: operation in 7 files, at most 6: agentctx/cli/0.py")
