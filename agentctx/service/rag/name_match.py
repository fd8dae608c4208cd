"""Compare a term of a memory with what an action names: flags, paths, hosts, placeholders, words. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from agentctx.service.rag.action import ActionNames, operations_of, parts_of, things_of
from agentctx.service.rag.terms import MemoryTerm
from agentctx.service.rag.word_match import stem_of

BY_FOLDER = 0.6
"""Match of a path that lies in a folder which the action changes as a whole."""
BY_OPERATION, BY_THING = 0.7, 0.35
"""Match of words that mean the same operation, "emptying" and `FLUSHALL`, or thing, "database" and `psql`."""
_CHANGING = frozenset({"remove", "modify", "format", "move"})
_HOST = re.compile(r"..[-\d]|[-\d]..")


def match(term: MemoryTerm, action: ActionNames) -> float:
    """Return how well an action matches a term, 0 to 1."""
    text = term.text.lower()
    if term.kind == "flag":
        return float(term.text.partition("=")[0] in action.flags)
    if term.kind == "word":
        return word_match(text, action)
    return 1.0 if _is_named(text, action) else path_match(text, action)


def word_match(word: str, action: ActionNames) -> float:
    """Return how well an action matches a word in lower case."""
    if word in action.programs or stem_of(word) in action.stems:
        return 1.0
    if operations_of(word) & action.operations:
        return BY_OPERATION
    return BY_THING if things_of(word) & action.things else 0.0


def path_match(text: str, action: ActionNames) -> float:
    """Return 1 if the action is at or below a path, or at a host; less if it changes a folder above."""
    wanted = parts_of(text.removeprefix("~")) if "/" in text or "." in text else ()
    folder = parts_of(action.folder)
    if not wanted or any(_holds(path, wanted) for path in (*action.paths, folder)):
        return float(bool(wanted))
    is_changing = not _CHANGING.isdisjoint(action.operations)
    below = (path[len(folder) :] for path in action.paths if is_changing)
    return BY_FOLDER if any(parts and parts == wanted[: len(parts)] for parts in below) else 0.0


def _is_named(text: str, action: ActionNames) -> bool:
    """Return whether an argument or a program contains a name, or a host of that first label."""
    if _pattern(text.rstrip("/")).search(action.named):
        return True
    label = text.partition(".")[0]
    is_host = "." in text and "/" not in text and bool(_HOST.search(label))
    return is_host and bool(_pattern(label).search(action.named))


def _pattern(text: str) -> re.Pattern[str]:
    """Return what matches a name, with its placeholders: `tw-*`, `depot-NN`, `<ticket>/x`."""
    body = re.escape(text).replace(r"\*", r"[^/\s]*")
    body = re.sub(r"<[^>]*>", r"[^/\\s]+", body)
    body = re.sub(r"\\-n+$", r"-\\d+", body)
    end = r"\d*(?![a-z0-9])" if text[-1:].isalpha() else r"(?![a-z0-9])"
    return re.compile(rf"(?<![a-z0-9]){body}{end}")


def _holds(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not any("*" in part for part in wanted):
        return f"/{'/'.join(wanted)}/" in f"/{'/'.join(parts)}/"
    starts = range(len(parts) - len(wanted) + 1)
    return any(all(map(fnmatchcase, parts[at : at + len(wanted)], wanted)) for at in starts)
