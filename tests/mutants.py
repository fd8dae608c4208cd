"""What the tests notice: small faults put into modules, one at a time, and whether a test fails.

`python -m tests.mutants --out before.json` tries 200 faults in the modules without I/O, or in the files and
folders it is given. `python -m tests.mutants --baseline before.json` tries the same ones again and names what
was found before and is not any more. A fault is known by its module, its function and its text.

The source is changed in memory: a fork imports the module with the fault in it and runs the test file of its
name, then those that import the module, but no tests that start processes, which would not have the fault.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import settings

from tests.pure_coverage import ROOT, pure_files

_PAIRS: Final = ("Lt LtE", "Gt GtE", "Eq NotEq", "Is IsNot", "In NotIn", "And Or", "Add Sub")
_BOTH_WAYS: Final = [names.split()[::way] for names in _PAIRS for way in (1, -1)]
OPPOSITES: Final = {getattr(ast, name): getattr(ast, opposite)() for name, opposite in _BOTH_WAYS}
SKIPPED: Final = re.compile("/(end_to_end|durability|real_agents|frameworks|system|supply_chain|code_rules)/")
# Assertions are not rewritten: the libraries are there already, which the rewriting warns of.
OPTIONS: Final = (
    *("-xq", "--assert=plain", "-pno:cacheprovider", "--hypothesis-seed=0"),
    *("-m", "not slow and not process"),
)
PASSED: Final = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
KILLED, SURVIVED, TIMED_OUT, GONE = "killed", "survived", "timed out", "gone"


class Mutant(NamedTuple):
    """A fault: where it is, and what it changes into what."""

    module: str
    function: str
    text: str

    @property
    def file(self) -> Path:
        """The module's file; a package's `__init__`."""
        place = ROOT / self.module.replace(".", "/")
        return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def mutants(file: Path) -> dict[Mutant, ast.Module]:
    """Return the faults that a file can have in its functions, each with the tree that has it."""
    source, number = file.read_text("utf-8"), 0
    found: dict[Mutant, ast.Module] = {}
    before = [ast.unparse(statement) for statement in ast.parse(source).body]
    while True:
        tree = ast.parse(source)
        change = next((each for at, each in enumerate(_changes(tree)) if at == number), None)
        if change is None:
            return found
        function, at, apply = change
        apply()
        text = _difference(before[at], ast.unparse(tree.body[at]))
        number += 1
        repeats = sum(each.function == function and each.text.split(" #")[0] == text for each in found)
        if text:
            found[Mutant(_module(file), function, f"{text} #{repeats + 1}" if repeats else text)] = tree


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _difference(before: str, after: str) -> str:
    """Return the first line that differs, and what it became."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next((f"{old.strip()} -> {new.strip()}" for old, new in pairs if old != new), "")


def _changes(tree: ast.Module) -> Iterator[tuple[str, int, Callable[[], None]]]:
    """Yield each change: its function, the place of the top-level statement, and what makes the change."""
    for at, statement in enumerate(tree.body):
        for function, node in _in_functions(ast.Module([statement], []), ""):
            for change in _changes_of(node):
                yield function, at, change


def _in_functions(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if child in getattr(node, "decorator_list", ()):
            continue
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}".strip(".")
        if inner and not isinstance(child, ast.arguments | ast.AnnAssign):
            yield inner, child
        yield from _in_functions(child, inner)


def _changes_of(node: ast.AST) -> Iterator[Callable[[], None]]:
    match node:
        case ast.Compare(ops=[operator, *_]):
            yield lambda: node.ops.__setitem__(0, OPPOSITES[type(operator)])
        case ast.BoolOp() | ast.BinOp(op=ast.Add() | ast.Sub()):
            yield lambda: setattr(node, "op", OPPOSITES[type(node.op)])
        case ast.Constant(value=bool()):
            yield lambda: setattr(node, "value", not node.value)
        case ast.Constant(value=int()):
            yield lambda: setattr(node, "value", node.value + 1)  # type: ignore[operator]
            yield lambda: setattr(node, "value", node.value - 1)  # type: ignore[operator]
        case ast.If() | ast.IfExp() | ast.While():
            yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension(ifs=[test, *_]):
            yield lambda: node.ifs.__setitem__(0, ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr()):
            yield lambda: setattr(node, "value", ast.Constant(None))
    yield from _deletions(node)


def _deletions(node: ast.AST) -> Iterator[Callable[[], None]]:
    for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
        for at, statement in enumerate(body if isinstance(body, list) else ()):
            match statement:
                case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                    yield lambda body=body, at=at: body.__setitem__(at, ast.Pass())  # type: ignore[misc]


class Faulty(SourceFileLoader):
    """Loads the one module from a changed tree."""

    def __init__(self, mutant: Mutant, tree: ast.Module) -> None:
        super().__init__(mutant.module, str(mutant.file))
        self._tree = ast.fix_missing_locations(tree)

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        """Compile the changed tree."""
        return compile(self._tree, self.path, "exec")

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Stand before the finders of `sys.meta_path`."""
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None


@cache
def steps_of(module: str, limit: float) -> list[list[str]]:
    """Return the test files to run after one another, without those that fail or take too long anyway."""
    unchanged = Mutant(module, "", "")
    tree = ast.parse(unchanged.file.read_text("utf-8"))
    steps = [
        files for files in files_of(unchanged) if outcome(unchanged, tree, [files], limit / 2) == SURVIVED
    ]
    if steps != files_of(unchanged):
        print(f"{module}: some tests fail or take too long without a fault; raise --limit", flush=True)  # noqa: T201
    return steps


def files_of(mutant: Mutant) -> list[list[str]]:
    """Return the test files to run: the one of the module's name, then those that import the module."""
    place = mutant.file.relative_to(ROOT)
    _, *folders = place.parent.parts
    mirrored = [
        ROOT.joinpath("tests", *folders, name) for name in (f"test_{place.name}", "test_transcripts.py")
    ]
    parent, _, name = mutant.module.rpartition(".")
    names = rf"from {re.escape(parent)} import (\([^)]*|[^\n(]*)\b{name}\b"
    importing = re.compile(rf"^\s*(from|import) {re.escape(mutant.module)}\b|^\s*{names}", re.MULTILINE)
    others = [
        file
        for file in sorted([*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("packages/*/tests/**/test_*.py")])
        if file not in mirrored
        and not SKIPPED.search(str(file))
        and importing.search(file.read_text("utf-8"))
    ]
    steps = [[str(file) for file in files if file.is_file()] for files in (mirrored, others)]
    return [step for step in steps if step]


def outcome(mutant: Mutant, tree: ast.Module, steps: list[list[str]], limit: float) -> str:
    """Run the tests with the fault and return what came of it; `limit` is in seconds, for each step."""
    for files in steps:
        pid = os.fork()
        if pid == 0:
            _run_in_fork(mutant, tree, files)
        end = time.monotonic() + limit
        while not (status := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return TIMED_OUT
            time.sleep(0.02)
        if os.waitstatus_to_exitcode(status[1]) not in PASSED:
            return KILLED
    return SURVIVED


def _run_in_fork(mutant: Mutant, tree: ast.Module, files: list[str]) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    sys.meta_path.insert(0, Faulty(mutant, tree))
    os._exit(int(pytest.main([*OPTIONS, *files])))


def _preload(files: list[Path]) -> None:
    """Import what the modules need once, so that each fork has the libraries; the project's own go again."""
    for name in ("hypothesis", "xdist", "pytest_asyncio", *map(_module, files)):
        importlib.import_module(name)
    for name in [name for name in sys.modules if re.match(r"(agentctx|tests[.]|conftest)", name)]:
        del sys.modules[name]
    # An example that found one fault would be tried first with the next.
    settings.register_profile("without examples of before", database=None)
    settings.load_profile("without examples of before")


def _tried(mutant: Mutant, tree: ast.Module | None, limit: float) -> str:
    return outcome(mutant, tree, steps_of(mutant.module, limit), limit) if tree else GONE


def main() -> int:
    """Try the faults, print those that no test found, and with a baseline those lost; 1 if any is lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("paths", nargs="*", help="files or folders; default: the modules without I/O")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--limit", type=float, default=90, help="seconds for the tests of one fault")
    parser.add_argument("--out", type=Path, help="write the results to this file")
    parser.add_argument("--baseline", type=Path, help="try the faults of this file and compare")
    given = parser.parse_args()
    places = [ROOT / path for path in given.paths] or [Path(file) for file in pure_files()]
    files = [file for place in places for file in sorted(place.rglob("*.py") if place.is_dir() else [place])]
    earlier = json.loads(given.baseline.read_text("utf-8")) if given.baseline else None
    if earlier is not None and not given.paths:
        files = sorted({file for row in earlier if (file := Mutant(*row[:3]).file).is_file()})
    _preload(files)
    found = {mutant: tree for file in files for mutant, tree in mutants(file).items()}
    # The same ones are drawn in every tree that has them.
    drawn = sorted(found, key=lambda each: hashlib.sha256("\0".join(each).encode()).digest())
    selected = [Mutant(*row[:3]) for row in earlier] if earlier else drawn[: given.count]
    rows = []
    for mutant in selected:
        rows.append([*mutant, _tried(mutant, found.get(mutant), given.limit)])
        if rows[-1][3] not in {KILLED, TIMED_OUT}:
            print(*rows[-1], sep="  ", flush=True)  # noqa: T201 - a command
    if given.out:
        given.out.write_text(json.dumps(rows, indent=0, ensure_ascii=False) + "\n", "utf-8")
    counts = {state: sum(row[3] == state for row in rows) for state in (KILLED, TIMED_OUT, SURVIVED, GONE)}
    lost = [
        now
        for now, then in zip(rows, earlier or [], strict=False)
        if then[3] == KILLED and now[3] == SURVIVED
    ]
    print(counts, "lost:", len(lost), *lost, sep="\n")  # noqa: T201 - a command
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
