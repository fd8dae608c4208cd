"""Check the program against the code rules and print violations: `python -m tests.code_rules`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.code_rules.check import problems

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    found = problems(ROOT)
    for problem in found:
        print(problem)  # noqa: T201 - a command
    sys.exit(bool(found))
