"""Globs match in bounded time; `test_ignore` compares the matches with git's."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from agentctx.ingest.globs import MAX_BYTES, MAX_CHARS, translate

LIMIT_S = 60.0
"""Limit for what takes less than a second; a backtracking matcher would take practically forever."""
SEED = 20261123
UNITS = ("*a", "a*", "*?", "**/", "**/a*/", "a/**/", "*[!b]", "*[a-z]", "?*a", "**/*a*a/", "*aa*", "*\\a")
NAMES = ("a", "aa", "a/", "aab/", "ab")


@pytest.mark.parametrize(
    ("glob", "fits", "does_not_fit"),
    [
        ("a*b*c", ["abc", "axbxc", "abbcc"], ["ab", "abcd", "a/bc"]),
        ("*ab*ab", ["abab", "aabab", "ababab"], ["ab", "aba"]),
        ("a/**/b", ["a/b", "a/x/b", "a/b/b", "a/x/y/b"], ["ab", "a/xb", "b"]),
        ("**/a/**/b/c", ["a/b/c", "x/a/y/a/b/c", "a/b/b/c"], ["a/c", "a/b/c/d"]),
        ("a/**", ["a/b", "a/b/c", "a/\n"], ["a", "b/a"]),
        ("a**/b", ["a/b", "axx/b"], ["a/x/b"]),
        ("[!a-c]?", ["dx", "-]"], ["ax", "d", "d/"]),
        ("[]-]", ["]", "-"], ["a", "\\"]),
        ("[z-a]", ["z"], ["a", "-", "m"]),
        ("[[:digit:][:upper:]]", ["7", "Z"], ["z", ":"]),
    ],
)
def test_paths_that_a_glob_matches(glob: str, fits: list[str], does_not_fit: list[str]) -> None:
    pattern = translate(glob)
    assert pattern is not None
    assert [path for path in (*fits, *does_not_fit) if pattern.fullmatch(path)] == fits


@pytest.mark.parametrize(
    "glob",
    [
        "",
        "a//b",
        "[",
        "[a",
        "[/]",
        "[[:word:]]",
        "a\\",
        "?" * (MAX_BYTES + 1),
        "[" + "a" * MAX_CHARS + "]",
    ],
)
def test_globs_that_match_no_path(glob: str) -> None:
    assert translate(glob) is None


def test_globs_made_to_backtrack_are_matched_in_time() -> None:
    chance = random.Random(SEED)
    cases = [("*a" * 11 + "b", "a" * 47), ("*" * 3_000 + "a", "b" * 255)]
    for _ in range(300):
        unit, other = chance.sample(UNITS, 2)
        count = chance.choice([12, 60, 1_000])
        glob = unit * count + other * chance.choice([0, count]) + chance.choice(["b", "/b", "[!a]"])
        name = chance.choice(NAMES)
        cases.append((glob, name * (2_000 // len(name)) + chance.choice(["", "c"])))
    script = (
        "import sys\nfrom agentctx.ingest.ignore import parse_rules\n"
        "for glob, path in eval(sys.stdin.read()):\n"
        "    for rule in parse_rules(glob):\n"
        "        rule.matches(path, path.replace('/', '')[:255], is_folder=False)\n"
    )
    subprocess.run([sys.executable, "-c", script], input=repr(cases), text=True, timeout=LIMIT_S, check=True)
