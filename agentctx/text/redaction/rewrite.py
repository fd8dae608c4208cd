"""Rewrites a text as a reader or program would interpret it: decodes escapes, drops invisible characters and
joins parts. Each rewritten text maps its characters back to the parts of the original they came from.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from typing import Final, NamedTuple, TypeAlias

Replace: TypeAlias = Callable[[re.Match[str]], str]

# Invisible characters: soft hyphen, joiners, zero widths, direction marks, fillers, selectors, tags, colors.
_HIDDEN: Final = (
    "\r(?=\n)|[\x00\x08\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]|\x1b\\[[0-9;]{0,20}[A-Za-z]"
)
_LOOKALIKES: Final = dict(
    zip(
        "АВЕЅІЈКМНОРСТУХаеѕіјорсухᴀԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧο",
        "ABESIJKMHOPCTYXaesijopcyxadqwhABEZHIKMNOPTYXo",
        strict=True,
    )
)
_FORMS: Final = re.compile(
    f"{_HIDDEN}|[\uff01-\uff5e\u2460-\u24ff\U0001d400-\U0001d7ff{''.join(_LOOKALIKES)}]"
)
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]")
_ESCAPES: Final = re.compile(
    r"""
      \\x\{?(?P<x>[0-9a-fA-F]{2})\}? | \\u(?P<u>[0-9a-fA-F]{4}) | \\u\{(?P<point>[0-9a-fA-F]{2,6})\}
    | \\U(?P<long>[0-9a-fA-F]{8}) | \\(?P<octal>[01][0-7]{2}) | %(?P<percent>[2-7][0-9a-fA-F])
    | (?P<entity>&(?:\#[0-9]{2,7}|\#[xX][0-9a-fA-F]{2,6}|[a-z]{2,8});)
    | \\(?P<itself>[_*~.\-/=:"'])
    """,
    re.VERBOSE,
)
_OPERATOR: Final = r"(?:\+|\.{1,2}|&|\|\||<>)"
_JOIN: Final = (
    rf"[ \t]{{0,8}}{_OPERATOR}?[ \t]{{0,8}}(?:\\?\n[ \t]{{0,80}})?(?:{_OPERATOR}[ \t]{{0,8}})?[fbru]{{0,2}}"
)
# A line continuation, a quoted-printable line break, or a text split over several pairs of quotes.
_JOINS: Final = re.compile(
    rf"""[\\="'`](?:(?<=\\)\r?\n[ \t]{{0,80}}|(?<==)\r?\n|(?<="){_JOIN}"|(?<='){_JOIN}'|(?<=`){_JOIN}`)"""
)
_LINE_WRAPS: Final = re.compile(r"\n(?<=[A-Za-z0-9_+/=.-]{4}\n)[ \t>#|*+]{0,40}(?=[A-Za-z0-9_+/=.-]{4})")
# Every ASCII character or pair that `_steps` looks for.
_SUSPICIOUS: Final = re.compile(r"[\r\x1b\x00\x08\\%&\"'`]|=\n")


class RewrittenText(NamedTuple):
    """A rewritten text, with the start of each run and the part of the original that it came from."""

    text: str
    starts: list[int]
    runs: list[tuple[int, int, bool]]
    """For each run: start and end in the original, and whether the run is a verbatim copy."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original from which `[start, end)` was made."""
        return self._source_of(start)[0], self._source_of(end - 1)[1]

    def _source_of(self, at: int) -> tuple[int, int]:
        run = bisect_right(self.starts, at) - 1
        start, end, is_copy = self.runs[run]
        if not is_copy:
            return start, end
        offset = start + at - self.starts[run]
        return offset, offset + 1


def rewrite(text: str, pattern: re.Pattern[str], replace: Replace) -> RewrittenText | None:
    """Replace every match in the text; return None without a match."""
    parts: list[str] = []
    rewritten = RewrittenText("", [], [])
    at = length = 0

    def add(part: str, start: int, end: int, *, is_copy: bool) -> int:
        if part:
            rewritten.starts.append(length)
            rewritten.runs.append((start, end, is_copy))
            parts.append(part)
        return len(part)

    for match in pattern.finditer(text):
        length += add(text[at : match.start()], at, match.start(), is_copy=True)
        length += add(replace(match), *match.span(), is_copy=False)
        at = match.end()
    if not at:
        return None
    length += add(text[at:], at, len(text), is_copy=True)
    return rewritten._replace(text="".join(parts))


class View(NamedTuple):
    """A text after several rewrites; `chain` lists the last one first."""

    text: str
    chain: tuple[RewrittenText, ...] = ()
    is_wrapped: bool = False
    """Whether possibly unrelated lines were joined."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        for step in self.chain:
            start, end = step.original(start, end)
        return start, end

    def then(self, step: RewrittenText | None) -> View:
        return self if step is None else self._replace(text=step.text, chain=(step, *self.chain))


def views(text: str) -> Iterator[View]:
    """Yield the text itself, and those undisguised versions of it that differ."""
    plain = View(text)
    yield plain
    bare = plain
    for step in _steps(text):
        bare = bare.then(step(bare.text))
    if bare is not plain:
        yield bare
    if "\n" in bare.text and (wrapped := bare.then(rewrite(bare.text, _LINE_WRAPS, _remove))) is not bare:
        yield wrapped._replace(is_wrapped=True)
    if not text.isascii() and (tagged := rewrite(text, _TAGS, lambda match: chr(ord(match[0]) - 0xE0000))):
        yield plain.then(tagged)


def is_undisguised(text: str) -> bool:
    """Return whether `views` yields nothing but the text. False may be wrong."""
    return text.isascii() and _SUSPICIOUS.search(text) is None and _LINE_WRAPS.search(text) is None


def _steps(text: str) -> Iterable[Callable[[str], RewrittenText | None]]:
    if not text.isascii() or any(map(text.__contains__, "\r\x1b\x00\x08")):
        yield lambda rewritten: rewrite(rewritten, _FORMS, _canonical_form)
    if "\\" in text or "%" in text or "&" in text:
        yield lambda rewritten: rewrite(rewritten, _ESCAPES, _unescape)
    if '"' in text or "'" in text or "`" in text or "\\\n" in text or "=\n" in text:
        yield lambda rewritten: rewrite(rewritten, _JOINS, _remove)


def _remove(_: re.Match[str]) -> str:
    return ""


def _canonical_form(match: re.Match[str]) -> str:
    character = match[0]
    if character in _LOOKALIKES:
        return _LOOKALIKES[character]
    folded = unicodedata.normalize("NFKC", character)
    return folded if (folded.isascii() and folded.isalnum()) or "\uff01" <= character <= "\uff5e" else ""


def _unescape(match: re.Match[str]) -> str:
    name, escaped = match.lastgroup, match[match.lastgroup or 0]
    if name == "entity":
        return unescape(escaped)
    if name == "itself":
        return escaped
    code = int(escaped, 8 if name == "octal" else 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else " "
