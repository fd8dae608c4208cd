"""Compare a term of a memory with what an action names: flags, paths, hosts, placeholders, words. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from agentctx.service.rag.action import ActionNames, PathUse, operations, parts_of, stems_in
from agentctx.service.rag.terms import MemoryTerm
from agentctx.service.rag.word_match import stem_of

BY_PARTS: Final = 0.8
"""Match of a compound whose parts the action has: `force-unlock` and `unlock --force`."""
BY_OPERATION: Final = 0.7
"""Match of words that mean the same operation: "emptying" and `FLUSHALL`."""
BY_FOLDER: Final = 0.6
"""Match of a path that lies in a folder which the action changes as a whole."""
BY_THING: Final = 0.35
"""Match of words that name the same thing: "database" and `psql`."""
_HOST = re.compile(r"..[-\d]|[-\d]..")


def match(term: MemoryTerm, action: ActionNames) -> float:
    """Return how well an action matches a term, 0 to 1."""
    if term.kind == "flag":
        return float(term.text.partition("=")[0] in action.flags)
    text = term.text.lower()
    if term.kind == "word":
        return word_match(text, action)
    by_path = path_match(text, action) if is_path(term) else 0.0
    if by_path == 1.0 or _is_named(text, action):
        return 1.0
    has_parts = term.kind == "dashed" and stems_in(text) <= action.stems
    return max(by_path, BY_PARTS if has_parts else 0.0)


def word_match(word: str, action: ActionNames) -> float:
    """Return how well an action matches a word in lower case."""
    stem, known = stem_of(word), operations()
    if word in action.programs or stem in action.stems:
        return 1.0
    if known.by_stem.get(stem, frozenset()) & action.operations:
        return BY_OPERATION
    return BY_THING if known.things.get(stem, frozenset()) & action.things else 0.0


def is_path(term: MemoryTerm) -> bool:
    """Return whether a term may be a path or a host, with its parts after slashes or dots."""
    return term.kind == "name" and ("/" in term.text or "." in term.text)


def path_match(text: str, action: ActionNames, use: PathUse | None = None) -> float:
    """Return 1 if the action is at or below a path, less if it changes a folder above."""
    wanted = parts_of(text.removeprefix("~"))
    if not wanted:
        return 0.0
    if any(_holds(path.parts, wanted) for path in action.paths if use is None or path.use == use):
        return 1.0
    folder = parts_of(action.folder)
    below = (path.parts[len(folder) :] for path in action.paths if path.use == "written")
    if any(parts and parts == wanted[: len(parts)] for parts in below):
        return BY_FOLDER
    return float(use is None and _holds(folder, wanted))


def _is_named(text: str, action: ActionNames) -> bool:
    """Return whether an argument or a program contains a name, or a host of that first label."""
    if _pattern(text.rstrip("/")).search(action.named):
        return True
    label = text.partition(".")[0]
    is_host = "." in text and "/" not in text and bool(_HOST.search(label))
    return is_host and bool(_pattern(label).search(action.named))


@lru_cache(4096)
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
