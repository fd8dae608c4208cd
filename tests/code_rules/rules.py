"""Rules of the program's code that no linter covers, checked on its syntax trees.

Each rule yields what it finds. What is allowed all the same stands in `allowed.py`, with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.code_rules.english import errors_that_are_no_sentences, unusual_phrases

SELF_EXECUTING: Final = frozenset({"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"})
"""Modules whose formats can run code when read."""
DRIVERS: Final = frozenset({"sqlite3", "pysqlite3", "apsw", "aiosqlite", "sqlite_vec"})
_RUNS_TEXT: Final = frozenset({"eval", "exec", "compile", "__import__"})
_SHELLS: Final = frozenset(
    {
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "asyncio.create_subprocess_shell",
    }
)
_LOADS_OBJECTS: Final = frozenset({"yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all"})
_EXECUTES: Final = frozenset(
    {
        "execute",
        "executemany",
        "executescript",
        "fetch",
        "fetchrow",
        "fetchval",
        "fetchmany",
        "cursor",
        "prepare",
    }
)
"""Methods of SQLite's connections and of asyncpg's."""
_OPENS: Final = frozenset(
    {
        "open",
        "os.open",
        "io.open",
        "shutil.copy",
        "shutil.copy2",
        "shutil.copyfile",
        "read_bounded",
    }
)
_PATH_OPENS: Final = frozenset({"read_bytes", "write_bytes", "read_text", "write_text"})
_HTTP_CALLS: Final = frozenset(
    f"httpx.{name}"
    for name in (
        "Client",
        "AsyncClient",
        "get",
        "post",
        "put",
        "patch",
        "delete",
        "head",
        "request",
        "stream",
    )
)
NOUNS: Final = frozenset({"Embedding", "Finding", "Hardening", "Heading", "Ranking", "Spending", "Tracing"})
"""Words that end like participles and are nouns of the field."""
_PARTICIPLE: Final = re.compile("[A-Z][a-z]+(ed|ing)")
_IRREGULAR: Final = frozenset(
    {"Built", "Found", "Held", "Kept", "Known", "Lost", "Made", "Read", "Seen", "Sent", "Spent"}
)
_SAFE_QUOTING: Final = frozenset({"quoted", "for_lookups", "int"})


@dataclass(frozen=True, slots=True)
class Violation:
    """`subject` is the name used in the list of exceptions: an expression, a function or a module."""

    rule: str
    file: str
    line: int
    subject: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.subject}"


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the program; `path` is relative to the root of the repository."""

    path: str
    text: str

    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def has_marker(self, node: ast.expr, marker: str) -> bool:
        """Return whether a comment on a line of the expression, or on the next line, contains the marker."""
        lines = self.text.splitlines()[node.lineno - 1 : (node.end_lineno or node.lineno) + 1]
        return any(marker in line.partition("#")[2] for line in lines)


Finding = tuple[ast.AST, str]
Rule = Callable[[Source, ast.Module], Iterator[Finding]]


def no_self_executing_formats(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """Reading pickle and the like can run code, as can YAML without `safe_load`, and NumPy if allowed to."""
    for node, module in _imports(tree):
        if module.partition(".")[0] in SELF_EXECUTING:
            yield node, module
    for call in _calls(tree):
        if (name := _dotted(call.func)) in _LOADS_OBJECTS or _has_true(call, "allow_pickle"):
            yield call, name


def no_text_is_run(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """No string is run as Python."""
    for call in _calls(tree):
        if isinstance(call.func, ast.Name) and call.func.id in _RUNS_TEXT:
            yield call, call.func.id


def no_shell(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """No string is run as a command line; arguments are passed as a list."""
    for call in _calls(tree):
        if (name := _dotted(call.func)) in _SHELLS or _has_true(call, "shell"):
            yield call, name


def sql_is_constant(source: Source, tree: ast.Module) -> Iterator[Finding]:
    """Statements consist of constants, numbers and quoted names; values are parameters.

    A statement that ruff's S608 sees and that has a reason beside its `noqa` is known already.
    """
    for call in _calls(tree):
        is_execute = isinstance(call.func, ast.Attribute) and call.func.attr in _EXECUTES
        if not is_execute or not call.args or _is_constant(statement := call.args[0]):
            continue
        if _is_built(statement) and not source.has_marker(statement, "noqa: S608 - "):
            yield statement, ast.unparse(statement)


def one_module_imports_drivers(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """The driver is chosen for its SQLite, and its connections are hardened, in one place."""
    for node, module in _imports(tree):
        if module.partition(".")[0] in DRIVERS:
            yield node, module


def who_opens_files_is_known(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """Closing any descriptor of the database drops SQLite's locks on it, and then commits can be lost."""
    for function, call in _calls_in_functions(tree):
        name = _dotted(call.func)
        is_path = isinstance(call.func, ast.Attribute) and call.func.attr in _PATH_OPENS
        if name in _OPENS or is_path or _opens_a_path(call):
            yield call, function


def http_goes_where_it_is_told(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """Every HTTP client states whether it follows redirects and the environment's proxies."""
    for call in _calls(tree):
        given = {keyword.arg for keyword in call.keywords}
        if (name := _dotted(call.func)) in _HTTP_CALLS and not {"trust_env", "follow_redirects"} <= given:
            yield call, name


def english_is_usual(source: Source, tree: ast.Module) -> Iterator[Finding]:
    """See `english.unusual_phrases`."""
    del source
    yield from unusual_phrases(tree)


def errors_are_sentences(source: Source, tree: ast.Module) -> Iterator[Finding]:
    """See `english.errors_that_are_no_sentences`."""
    if not source.path.startswith(FRAGMENTS):
        yield from errors_that_are_no_sentences(tree)


def classes_are_nouns(_: Source, tree: ast.Module) -> Iterator[Finding]:
    """A bare participle does not say what was read, found or is waiting; the noun does: `FoundFile`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and is_bare_participle(node.name):
            yield node, node.name


def is_bare_participle(name: str) -> bool:
    """Return whether the name of a class is one word, and a participle that is not the field's noun."""
    word = name.removeprefix("_")
    return word in _IRREGULAR or (_PARTICIPLE.fullmatch(word) is not None and word not in NOUNS)


RULES: Final[Mapping[str, Rule]] = {
    "self-executing format": no_self_executing_formats,
    "text run as code": no_text_is_run,
    "shell": no_shell,
    "SQL that is built": sql_is_constant,
    "SQLite driver imported": one_module_imports_drivers,
    "file opened near the database": who_opens_files_is_known,
    "HTTP client without both trust_env and follow_redirects": http_goes_where_it_is_told,
    "unusual phrase": english_is_usual,
    "error message that is not a sentence": errors_are_sentences,
    "class named by a bare participle": classes_are_nouns,
}
FRAGMENTS: Final = ()
"""Files whose messages are still fragments. Remove one when its messages are sentences; add none."""
NEAR_THE_DATABASE: Final = (
    "packages/agentctx-postgresql/",
    *(
        f"agentctx/{package}/"
        for package in (
            "storage",
            "embedding/queue",
            "embedding/vector_stores",
            "service",
            "doctor",
            "server",
            "daemon",
        )
    ),
)
"""Packages that receive the path of the database."""


def violations(source: Source) -> list[Violation]:
    """Return a file's violations, whether allowed or not."""
    tree = source.tree()
    return [
        Violation(name, source.path, getattr(node, "lineno", 0), subject)
        for name, rule in RULES.items()
        if rule is not who_opens_files_is_known or source.path.startswith(NEAR_THE_DATABASE)
        for node, subject in rule(source, tree)
    ]


def _imports(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield imports, including those by name, as with `import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node, node.module
        elif isinstance(node, ast.Call) and _dotted(node.func).endswith("import_module"):
            yield from ((node, str(name.value)) for name in node.args if isinstance(name, ast.Constant))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _calls_in_functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with the name of the enclosing function, like `Class.method`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            yield inside, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _calls_in_functions(node, f"{inside}.{node.name}".lstrip("."))
        else:
            yield from _calls_in_functions(node, inside)


def _dotted(expression: ast.expr) -> str:
    """Return a call's function as a dotted name, like `os.path.join`; empty for other expressions."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute) and (owner := _dotted(expression.value)):
        return f"{owner}.{expression.attr}"
    return ""


def _has_true(call: ast.Call, keyword: str) -> bool:
    return any(
        given.arg == keyword and not (isinstance(given.value, ast.Constant) and not given.value.value)
        for given in call.keywords
    )


def _opens_a_path(call: ast.Call) -> bool:
    """Return whether a call is `path.open(…)`; other classes have an `open` with other arguments."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"open", "fdopen"}:
        return False
    owner = _dotted(call.func.value)
    if owner[:1].isupper() or owner in {"cls", "self"}:
        return False
    modes = [argument for argument in call.args if isinstance(argument, ast.Constant)]
    return (
        bool(modes)
        or any(keyword.arg in {"mode", "encoding"} for keyword in call.keywords)
        or (not call.args and not call.keywords)
    )


def _is_built(statement: ast.expr) -> bool:
    is_format = (
        isinstance(statement, ast.Call)
        and isinstance(statement.func, ast.Attribute)
        and statement.func.attr in {"format", "join", "format_map", "replace"}
    )
    return is_format or isinstance(statement, ast.JoinedStr | ast.BinOp)


def _is_constant(expression: ast.expr) -> bool:
    """Return whether this is a literal, a NAME IN CAPITALS, a quoted name, a number, or made of these."""
    match expression:
        case ast.Constant():
            is_constant = True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            is_constant = name.isupper()
        case ast.JoinedStr(values=parts):
            is_constant = all(map(_is_constant, parts))
        case ast.FormattedValue(value=value):
            is_constant = _is_constant(value)
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            is_constant = _is_constant(left) and _is_constant(right)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _SAFE_QUOTING:
            is_constant = True
        case ast.Call(func=ast.Attribute(attr="format", value=template), args=[], keywords=given):
            is_constant = all(map(_is_constant, [template, *(keyword.value for keyword in given)]))
        case _:
            is_constant = False
    return is_constant
