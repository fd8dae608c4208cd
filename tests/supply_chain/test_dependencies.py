"""Installed packages match docs/dependencies.md, are locked with hashes, and have free licences."""

from __future__ import annotations

import itertools
import re
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.docs_scripts import docs_script

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
recorder = docs_script("record_dependencies")
LOCKS = ("requirements.lock", "requirements-dev.lock")
PACKAGE_LOCKS = sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("packages/*/requirements.lock"))
PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "MIT",
    "MPL-2.0",
    "PSF-2.0",
    "Zlib",
}
MOST_PACKAGES = 45
PTH_ALLOWED = {
    "a1_coverage.pth": "coverage, for processes whose environment asks to be measured",
    "_editable_impl_agentctx_daemon.pth": "the folder of this very project",
    "_agentctx_postgresql.pth": "a package of this project, and its tests",
    "_agentctx_testing.pth": "the same",
    "distutils-precedence.pth": "setuptools, which venv may bring",
}


def rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the table under a heading, by their first cell."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: row for row in cells}


def versions(lock: str) -> dict[str, str]:
    return {each.name: each.version for each in recorder.locked((ROOT / lock).read_text("utf-8"))}


def test_each_package_asked_for_has_its_reason_on_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in project["dependencies"]}
    reasons = rows("Why each is there")
    assert set(reasons) == asked
    assert all(len(row) == 3 and all(row) for row in reasons.values())


def test_the_page_names_each_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"dev", "build"}
    listed = PAGE.partition("is an extra (")[2].partition(")")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == extras


def test_the_page_tells_everything_that_is_locked() -> None:
    documented = rows("Everything that is installed")
    lock = recorder.locked((ROOT / "requirements.lock").read_text("utf-8"))
    assert list(documented) == [each.name for each in lock]


def test_an_install_brings_few_packages() -> None:
    lock = recorder.locked((ROOT / "requirements.lock").read_text("utf-8"))
    everywhere = [each.name for each in lock if "win32" not in each.marker]
    assert len([name for name in everywhere if name not in recorder.BUILD_ONLY]) <= MOST_PACKAGES


@pytest.mark.parametrize("name", [row[0] for row in rows("Everything that is installed").values()])
def test_each_licence_is_permissive_and_as_documented(name: str) -> None:
    documented = rows("Everything that is installed")[name][1]
    if documented.startswith("not installed"):
        return
    assert documented == recorder.licence(name), "regenerate the page: make reference"
    assert documented
    assert set(re.split(r" (?:AND|OR) ", documented)) <= PERMISSIVE


@pytest.mark.parametrize("name", [*LOCKS, *PACKAGE_LOCKS])
def test_every_locked_package_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    packages = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    assert len(packages) > 40 or name in PACKAGE_LOCKS
    for package in filter(None, packages):
        assert re.match(r"[\w.-]+==\S+", package), package[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", package), package[:80]
        assert "://" not in package


def test_the_development_lock_has_the_versions_of_the_other() -> None:
    development = versions("requirements-dev.lock")
    for lock in ("requirements.lock", *PACKAGE_LOCKS):
        assert versions(lock).items() <= development.items()


def test_no_index_could_resolve_our_own_packages() -> None:
    projects = [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
    for project in (tomllib.loads(file.read_text("utf-8"))["project"] for file in projects):
        extras = project.get("optional-dependencies", {}).values()
        required = [*project.get("dependencies", ()), *itertools.chain.from_iterable(extras)]
        assert [line for line in required if line.startswith("agentctx")] == []
    for lock in (*LOCKS, *PACKAGE_LOCKS):
        assert [name for name in versions(lock) if name.startswith("agentctx")] == []


def test_only_known_code_runs_at_interpreter_start() -> None:
    folders = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    found = {file.name for folder in folders for file in folder.glob("*.pth")}
    assert found <= PTH_ALLOWED.keys()
