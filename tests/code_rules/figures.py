"""The size and the shape of the project: `make figures` prints them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.code_rules.check import operation_names, sources
from tests.code_rules.counts import files_of_operations
from tests.code_rules.rules import Source

GENERATED: Final = frozenset({"cli.md", "http-reference.md", "python-reference.md", "dependencies.md"})
"""Pages that a program writes."""

Graph = Mapping[str, frozenset[str]]


def figures(root: Path) -> list[tuple[str, str]]:
    """Return each figure's name and value, in the order in which they are printed."""
    packages = sources(root)
    daemon = [source for source in packages if source.path.startswith("agentctx/")]
    tests = _sources(root, "tests/**/*.py", "packages/*/tests/**/*.py")
    files = files_of_operations(daemon, operation_names())
    last, largest = operation_names()[-1], max(files, key=lambda name: len(files[name]))
    pages = _pages(root)
    lines = _lines(daemon)
    return [
        ("lines of the daemon's package", f"{lines:,}"),
        ("lines of all packages", f"{_lines(packages):,}"),
        ("lines of tests", f"{_lines(tests):,}"),
        ("modules whose test has their name", named_tests(root, daemon)),
        ("rooms", str(len(rooms(daemon)))),
        ("circles", str(len(circles(imports(daemon))))),
        ("functions per 100 lines", f"{100 * _functions(daemon) / lines:.1f}"),
        (f"files of the last operation, {last}", str(len(files[last]))),
        (f"files of the operation in most files, {largest}", str(len(files[largest]))),
        (f"words of docs, {len(pages)} pages", f"{sum(len(page.split()) for page in pages):,}"),
    ]


def named_tests(root: Path, program: Iterable[Source]) -> str:
    """Return how many modules have a test file or a transcript in the mirrored place, and of how many."""
    modules = [Path(source.path) for source in program if not source.path.endswith("__init__.py")]
    folders = [(root / "tests" / module.relative_to("agentctx").parent, module.stem) for module in modules]
    found = [
        (folder / f"test_{name}.py").is_file() or (folder / f"transcripts/{name}.txt").is_file()
        for folder, name in folders
    ]
    return f"{sum(found)} of {len(found)}"


def rooms(program: Iterable[Source]) -> set[str]:
    """Return the packages at the top of the program."""
    return {match[1] for source in program if (match := re.match(r"agentctx/(\w+)/", source.path))}


def imports(program: Sequence[Source]) -> Graph:
    """Return which modules of the program each module imports, also late and for types alone."""
    modules = {_module(source.path) for source in program}
    return {_module(source.path): frozenset(_imported(source, modules)) for source in program}


def circles(graph: Graph) -> list[frozenset[str]]:
    """Return the sets of modules that import one another, directly or through others."""
    reached = {module: _reachable(graph, module) for module in graph}
    found = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(found, key=sorted)


def _sources(root: Path, *patterns: str) -> list[Source]:
    paths = sorted(path for pattern in patterns for path in root.glob(pattern))
    return [Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def _lines(files: Iterable[Source]) -> int:
    return sum(len(source.text.splitlines()) for source in files)


def _functions(files: Iterable[Source]) -> int:
    nodes = (node for source in files for node in ast.walk(source.tree()))
    return sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)


def _pages(root: Path) -> list[str]:
    """Return the texts that people wrote for users, operators and contributors."""
    pages = [
        *root.glob("*.md"),
        *root.glob("docs/**/*.md"),
        *root.glob("agentctx/**/*.md"),
        *root.glob("packages/*/*.md"),
    ]
    written = [page for page in pages if page.name not in GENERATED | {"CHANGELOG.md"}]
    return [page.read_text(encoding="utf-8") for page in written]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(source: Source, modules: set[str]) -> Iterable[str]:
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in whole]
        else:
            continue
        yield from (name for name in names if name in modules and name != _module(source.path))


def _reachable(graph: Graph, start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += graph[module]
    return reached


if __name__ == "__main__":
    for name, value in figures(Path(__file__).parents[2]):
        print(f"{value:>8}  {name}")  # noqa: T201 - a command
