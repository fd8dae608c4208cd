"""Cuts secrets out of a text. Pure: the same text and rules always give the same.

Each secret becomes `[redacted:<kind>]`. Such marks divide a text, and each piece between them is looked at
as if it stood alone; pieces that a cut leaves are looked at again. So what comes out holds no secret of the
rules, and redacting it once more changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agentctx.redaction.rules import SecretRules, SecretSpan

MOST_PASSES: Final = 4
"""A piece in which cuts keep baring new secrets after so many is cut out whole: the time stays linear."""

_MARK: Final = re.compile(r"\[redacted:[a-z0-9-]{1,63}\]")


class SecretFinding(NamedTuple):
    """A secret and where the text held it, in code points. Never the secret."""

    kind: str
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class Redacted(NamedTuple):
    """A text without its secrets, and what was cut out, by place."""

    text: str
    findings: tuple[SecretFinding, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind once, in the order found."""
        return tuple(dict.fromkeys(finding.kind for finding in self.findings))


def redact(text: str, rules: SecretRules) -> Redacted:
    """The text without its secrets; the very same object when it has none."""
    findings = find(text, rules)
    return Redacted(_cut(text, findings), findings) if findings else Redacted(text, ())


def find(text: str, rules: SecretRules) -> tuple[SecretFinding, ...]:
    """The secrets of a text, by place; they do not overlap."""
    pieces = [
        (piece, 0)
        for piece in _between(SecretSpan(0, len(text)), (SecretSpan(*m.span()) for m in _marks(text)))
    ]
    findings: list[SecretFinding] = []
    while pieces:
        piece, passes = pieces.pop()
        found = _find_in_piece(text[piece.start : piece.end], rules)
        if found and passes == MOST_PASSES:
            found = [SecretFinding(found[0].kind, 0, piece.end - piece.start)]
        here = [SecretFinding(each.kind, piece.start + each.start, each.length) for each in found]
        findings += here
        if here:
            left = _between(piece, (SecretSpan(each.start, each.end) for each in here))
            pieces += [(each, passes + 1) for each in left]
    return tuple(sorted(findings, key=lambda finding: finding.start))


def _marks(text: str) -> Iterable[re.Match[str]]:
    return _MARK.finditer(text) if "[redacted:" in text else ()


def _between(whole: SecretSpan, cuts: Iterable[SecretSpan]) -> list[SecretSpan]:
    """What is left of a span, without the cuts, which come in order."""
    left, at = [], whole.start
    for cut in cuts:
        left.append(SecretSpan(at, cut.start))
        at = cut.end
    return [span for span in (*left, SecretSpan(at, whole.end)) if span.start < span.end]


def _find_in_piece(piece: str, rules: SecretRules) -> list[SecretFinding]:
    found = [
        (span.start, rank, span.end, rule.id)
        for rank, rule in enumerate(rules.wanted(piece))
        for span in rule.spans(piece)
    ]
    return _joined(sorted(found)) if found else []


def _joined(found: Sequence[tuple[int, int, int, str]]) -> list[SecretFinding]:
    """Overlapping places as one, of the kind that ranks first among them."""
    joined: list[SecretFinding] = []
    best = 0
    for start, rank, end, kind in found:
        if joined and start < joined[-1].end:
            last = joined[-1]
            name, best = (kind, rank) if rank < best else (last.kind, best)
            joined[-1] = SecretFinding(name, last.start, max(end, last.end) - last.start)
        else:
            joined.append(SecretFinding(kind, start, end - start))
            best = rank
    return joined


def _cut(text: str, findings: Iterable[SecretFinding]) -> str:
    parts, at = [], 0
    for finding in findings:
        parts += [text[at : finding.start], f"[redacted:{finding.kind}]"]
        at = finding.end
    return "".join([*parts, text[at:]])
