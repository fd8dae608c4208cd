"""The examples of the README are test modules that pass as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

README: Final = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SUITES: Final = {"Provider", "Store", "Chunker", "Reranker", "Engine"}
QUICK: Final = "not Engine or receipt"
"""The tests of the SQLite engine run its whole suite, which takes long."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.M)


def test_every_example_passes(tmp_path: Path) -> None:
    (settings,) = blocks("ini")
    (tmp_path / "pytest.ini").write_text(settings, encoding="utf-8")
    for number, code in enumerate(blocks("python")):
        (tmp_path / f"test_{number}.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", QUICK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"::TestMy(\w+)::.* PASSED", done.stdout)
    assert set(passed) == SUITES
    assert all(passed.count(suite) >= 3 for suite in SUITES)
