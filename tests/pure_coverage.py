"""Require full branch coverage of the modules without I/O: `make coverage`.

Which they are is said once, by the contracts of import-linter whose names end in `PURE`.
"""

from __future__ import annotations

import io
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coverage import Coverage

ROOT: Final = Path(__file__).parents[1]
PURE: Final = "do no I/O"


def pure_files() -> list[str]:
    """Return the files of the modules without I/O."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = [each for each in project["tool"]["importlinter"]["contracts"] if each["name"].endswith(PURE)]
    modules = [module for contract in contracts for module in contract["source_modules"]]
    return [str(file) for module in modules for file in _files(ROOT / module.replace(".", "/"))]


def _files(place: Path) -> Iterator[Path]:
    return place.rglob("*.py") if place.is_dir() else iter([place.with_suffix(".py")])


def main() -> int:
    """Print the package's coverage, and the uncovered lines of its modules without I/O.

    1 if there are any.
    """
    measured = Coverage(config_file=str(ROOT / "pyproject.toml"))
    measured.load()
    total = measured.report(file=io.StringIO())
    pure = measured.report(include=pure_files(), show_missing=True, skip_covered=True)
    print(f"coverage: {total:.1f} % of agentctx, {pure:.2f} % of its modules without I/O")  # noqa: T201
    return 0 if pure == 100 else 1


if __name__ == "__main__":
    sys.exit(main())
