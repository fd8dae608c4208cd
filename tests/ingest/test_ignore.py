"""Compared with git: the walk must agree with `git check-ignore`."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.errors import TooLarge
from agentctx.ingest.ignore import MAX_BYTES, IgnoreLayer, IgnoreRules, parse_rules, rules_above
from tests.amount import examples

GIT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "HOME": os.devnull,
}


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=GIT,
        input=os.fsencode(stdin),
        capture_output=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return os.fsdecode(done.stdout)


def plant(root: Path, files: Mapping[str, str]) -> None:
    """Make the files of a tree; a name that ends with a slash is an empty folder."""
    for name, text in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        elif not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(text))


def ours(folder: str, rules: IgnoreRules | None = None) -> Iterator[tuple[str, bool]]:
    """Return every visited path, and whether it is ignored."""
    rules = rules_above(folder) if rules is None else rules
    rules = rules.entering(folder, {entry.name for entry in os.scandir(folder)})
    for entry in os.scandir(folder):
        if entry.name in {".git", ".gitignore"}:
            continue
        is_folder = entry.is_dir()
        ignored = rules.ignores(entry.path, entry.name, is_folder=is_folder)
        yield entry.path, ignored
        if is_folder and not ignored:
            yield from ours(entry.path, rules)


def assert_as_git_says(repository: Path, start: Path | None = None) -> dict[str, bool]:
    decided = {os.path.relpath(path, repository): ignored for path, ignored in ours(str(start or repository))}
    asked = "".join(f"{path}\0" for path in decided)
    said = git(repository, "check-ignore", "-z", "--no-index", "--stdin", stdin=asked) if asked else ""
    assert {path for path, ignored in decided.items() if ignored} == {*said.split("\0")} - {""}
    return decided


TREE = (
    "a.log",
    "keep.log",
    "build/out.o",
    "src/build/x.c",
    "src/a.log",
    "src/deep/er/b.log",
    "docs/a.md",
    "docs/b.txt",
    "docs/sub/c.md",
    "Größe.txt",
    "#hash",
    "!bang",
    "with space ",
    "b[1].txt",
)


@pytest.mark.parametrize(
    "rules",
    [
        {".gitignore": "*.log\n!keep.log\n"},
        {".gitignore": "build/\n"},
        {".gitignore": "/build\n"},
        {".gitignore": "build\n!src/build\n"},
        {".gitignore": "*\n!*/\n!*.md\n"},
        {".gitignore": "docs/*\n!docs/sub/\n"},
        {".gitignore": "docs/**\n!docs/sub/\n"},
        {".gitignore": "docs/\n!docs/a.md\n"},
        {".gitignore": "**/er/\n"},
        {".gitignore": "src/**/b.log\n"},
        {".gitignore": "src/**/\n"},
        {".gitignore": "*.log\n", "src/.gitignore": "!a.log\n"},
        {".gitignore": "!*.log\n", ".git/info/exclude": "*.log\n*.md\n"},
        {".gitignore": "# comment\n\\#hash\n\\!bang\n"},
        {".gitignore": "with space\\ \na.log   \n"},
        {".gitignore": "b\\[1\\].txt\n[a-b].log\n"},
        {".gitignore": "Gr??e.txt\n"},
        {".gitignore": "Gr????e.txt\n"},
        {".gitignore": "Größe.*\r\nbuild/\r\n"},
        {".gitignore": "\ufeff*.md\n"},
        {".gitignore": "[[:alpha:]].log\n[[:digit:]].log\n"},
        {".gitignore": "/\n[\n[z-a]\n\\\n*.log\n"},
        {".gitignore": "deep/er\nsub/c.md\n"},
        {".gitignore": "*.log", "src/.gitignore": "*\n!deep\n"},
    ],
    ids=lambda rules: " ".join(rules.values()).encode("unicode_escape").decode(),
)
def test_rules_match_as_in_git(tmp_path: Path, rules: dict[str, str]) -> None:
    git(tmp_path, "init", "-q")
    plant(tmp_path, {**dict.fromkeys(TREE, ""), **rules})
    assert_as_git_says(tmp_path)


NAMES = st.sampled_from(["a", "b", "ab", "a.c", "b c", "é", "#h", "[x]"])
FILES = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)
SEGMENTS = st.sampled_from(["*", "**", "a", "b", "ab", "a*", "*b", "?", "*.c", "[ab]", "[!a]", "é", "\\[x]"])
PATTERNS = st.tuples(
    st.sampled_from(["", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "/"]),
).map("".join)
RULES = st.lists(
    st.tuples(st.sampled_from(["", "a/", "b/", "a/b/", "ab/"]), st.lists(PATTERNS, min_size=1, max_size=4)),
    min_size=1,
    max_size=3,
)


@given(FILES, RULES)
@settings(max_examples=examples(40), deadline=None)
def test_any_tree_with_any_rules_matches_git(files: list[str], rules: list[tuple[str, list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        git(root, "init", "-q")
        # Folders first: a file cannot have the name of one.
        tree = {f"{where}.gitignore": "\n".join(lines) for where, lines in rules}
        plant(root, tree)
        for file in files:
            if not any((root / part).is_file() for part in _beginnings(file)):
                plant(root, {file: ""})
        assert_as_git_says(root)


ATOMS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "ab",
            "é",
            "-",
            " ",
            "\\ ",
            "#",
            "!",
            "{",
            "$",
            "?",
            "/",
            "/",
            "*",
            "**/",
            "/**",
            "/**/",
            "***",
        ),
        *(
            "[ab]",
            "[!a]",
            "[^b]",
            "[a-c]",
            "[]a]",
            "[]-a]",
            "[a-]",
            "[--0]",
            "[a/b]",
            "[\\]]",
            "[a-\\c]",
            "[é]",
        ),
        *(
            "[[:alpha:]]",
            "[![:punct:]]",
            "[[:space:]b]",
            "[[:]",
            "[[:none:]]",
            "[z-a]",
            "[a",
            "\\a",
            "\\*",
            "\\",
        ),
    ]
)
GLOBS = st.lists(ATOMS, min_size=1, max_size=6).map("".join)
NAME_CHARS = st.text(alphabet="ab-] #!é*\\$", min_size=1, max_size=3)
PATHS = st.lists(NAME_CHARS, min_size=1, max_size=4).map("/".join)
_OF_OLD_GITS = re.compile(r"[^/*\]][*]{2,}/")
"""Gits before 2.53 take `a**/b` for `a` and then `**/b`, unlike what they document."""


@given(
    st.lists(GLOBS.filter(lambda glob: not _OF_OLD_GITS.search(glob)), min_size=1, max_size=4),
    st.sets(PATHS, min_size=20),
)
@settings(max_examples=examples(100))
def test_any_glob_matches_any_path_as_git_does(globs: list[str], paths: set[str]) -> None:
    text = "\n".join(globs)
    with tempfile.TemporaryDirectory() as folder:
        git(Path(folder), "init", "-q")
        plant(Path(folder), {".gitignore": text})
        asked = "".join(f"{path}\0" for path in paths)
        said = git(Path(folder), "check-ignore", "-z", "--no-index", "--stdin", stdin=asked)
    rules = parse_rules(os.fsencode(text).decode("latin-1"))
    layer = IgnoreLayer("/", rules, len(text), is_git_rule=True)
    assert {path for path in paths if _is_ignored(IgnoreRules((layer,)), path)} == {*said.split("\0")} - {""}


def _is_ignored(rules: IgnoreRules, path: str) -> bool:
    """Return whether the path, a file, or a folder above it is ignored."""
    return any(
        rules.ignores(f"/{part}", part.rpartition("/")[2], is_folder=part != path)
        for part in _beginnings(path)
    )


def _beginnings(file: str) -> list[str]:
    parts = file.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def test_parents_rule_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*\n", "repo/x": ""})
    repository = tmp_path / "repo"
    git(repository, "init", "-q")
    plant(
        repository, {".gitignore": "*.log\n", "a/.gitignore": "/b/*.tmp\n", "a/b/x.tmp": "", "a/b/y.log": ""}
    )
    plant(repository, {"a/b/z.md": ""})
    decided = assert_as_git_says(repository, repository / "a" / "b")
    assert decided == {"a/b/x.tmp": True, "a/b/y.log": True, "a/b/z.md": False}


def test_a_named_folder_is_taken_though_it_is_ignored(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    plant(tmp_path, {".gitignore": "build/\n*.o\n", "build/x.o": "", "build/x.md": ""})
    decided = dict(ours(str(tmp_path / "build")))
    assert [Path(path).name for path, ignored in decided.items() if not ignored] == ["x.md"]


def test_a_repository_inside_starts_over(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    plant(
        tmp_path, {".gitignore": "*.md\n", ".agentctxignore": "*.txt\n", "inner/a.md": "", "inner/b.txt": ""}
    )
    git(tmp_path / "inner", "init", "-q")
    plant(tmp_path, {"inner/.git/info/exclude": "*.o\n", "inner/c.o": ""})
    decided = {Path(path).name: ignored for path, ignored in ours(str(tmp_path))}
    assert decided["a.md"] is False
    assert decided["b.txt"] is True, "rules of our own hold everywhere below"
    assert decided["c.o"] is True


def test_a_worktree_has_the_excludes_of_its_repository(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m")
    git(main, "worktree", "add", "-q", str(tree))
    plant(main, {".git/info/exclude": "*.log\n"})
    plant(tree, {"a.log": "", "a.md": ""})
    assert assert_as_git_says(tree) == {"a.log": True, "a.md": False}


def test_our_ignore_file_takes_precedence_over_gits(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.md\n", ".agentctxignore": "!a.md\n*.txt\n", "a.md": "", "b.md": ""})
    plant(tmp_path, {"c.txt": ""})
    decided = {Path(path).name: ignored for path, ignored in ours(str(tmp_path))}
    assert decided == {".agentctxignore": False, "a.md": False, "b.md": True, "c.txt": True}


def test_ignore_files_that_are_not_regular_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").symlink_to(tmp_path / "rules")
    plant(tmp_path, {"rules": "*\n", "sub/a": ""})
    assert not any(ignored for _, ignored in ours(str(tmp_path)))


def test_ignore_files_are_read_up_to_a_limit_that_all_share(tmp_path: Path) -> None:
    line = "a-name-that-does-not-occur\n"
    half = line * (MAX_BYTES // 2 // len(line) + 1)
    plant(tmp_path, {"one/.gitignore": half, "one/two/.gitignore": half, "three/.gitignore": half * 3})
    rules = IgnoreRules().entering(str(tmp_path / "one"), {".gitignore"})
    with pytest.raises(TooLarge):
        rules.entering(str(tmp_path / "one" / "two"), {".gitignore"})
    with pytest.raises(TooLarge):
        IgnoreRules().entering(str(tmp_path / "three"), {".gitignore"})


@pytest.mark.parametrize("pointer", ["gitdir: a\0b", "gitdir: " + "x/" * 5_000, "\udcff", "gitdir: /dev"])
def test_a_git_file_that_leads_nowhere_has_no_rules(tmp_path: Path, pointer: str) -> None:
    plant(tmp_path, {".git": pointer, "a": ""})
    assert not any(ignored for _, ignored in ours(str(tmp_path)))
