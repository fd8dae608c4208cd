"""Cuts secrets out of an entry's fields, before anything is stored, queued, sent or logged. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agentctx.errors import SecretRefused
from agentctx.redaction.redact import SecretFinding
from agentctx.redaction.redactor import Redactor

MOST_NAMED: Final = 10
"""Places that a refusal names."""

Places: TypeAlias = Sequence[Sequence[int]]
"""Of a file: pairs `[offset in content, number]`, ascending, as in `wire.FileRecord`."""


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """A secret and the field that holds it, like `content` or `tags.0`."""

    field: str
    finding: SecretFinding


def redact_fields(
    fields: Mapping[str, Any], redactor: Redactor, *, what: str = "This entry cannot be saved"
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Every text of the fields redacted, lists of texts included; kinds in the order found.

    The places of a file move with the text.

    Raises:
        SecretRefused: there are secrets, and the redactor refuses them.
    """
    redacted: dict[str, Any] = {}
    found: list[FieldFinding] = []
    for name, value in fields.items():
        redacted[name], here = _redact_value(name, value, redactor)
        found += here
    if found and redactor.refuses:
        raise _refusal(found, what)
    if in_content := [each.finding for each in found if each.field == "content"]:
        _move_places(redacted, fields["content"], in_content)
    return redacted, tuple(dict.fromkeys(each.finding.kind for each in found))


def redact_name(name: str | None, redactor: Redactor) -> tuple[str | None, tuple[str, ...]]:
    """The name of a session or an agent, redacted in every mode: it is not what is being saved."""
    if name is None:
        return None, ()
    redacted = redactor(name)
    return redacted.text, redacted.kinds


def moved_places(
    places: Places, content: str, findings: Sequence[SecretFinding], *, by_line: bool
) -> list[list[int]]:
    """Where the places are once the findings are cut out.

    A place within a secret moves to its mark's end. `by_line`: where a cut takes line breaks along, a place
    behind it says on which line the text goes on.
    """
    shift = _Shift(findings)
    moved = {shift.moved(offset): number for offset, number in places}
    for finding in findings if by_line else ():
        if "\n" in content[finding.start : finding.end]:
            moved[shift.moved(finding.end)] = _line_at(finding.end, places, content)
    return [[offset, moved[offset]] for offset in sorted(moved)]


class _Shift:
    """How far the cuts push what stands behind them."""

    def __init__(self, findings: Sequence[SecretFinding]) -> None:
        self._starts = [finding.start for finding in findings]
        self._ends = [finding.end for finding in findings]
        self._after: list[int] = []
        at = 0
        for finding in findings:
            at += len(f"[redacted:{finding.kind}]") - finding.length
            self._after.append(at)

    def moved(self, offset: int) -> int:
        last = bisect_right(self._starts, offset) - 1
        if last < 0:
            return offset
        if offset == self._starts[last]:
            return offset + (self._after[last - 1] if last else 0)
        return max(offset, self._ends[last]) + self._after[last]


def _line_at(offset: int, places: Places, content: str) -> int:
    before = bisect_right(places, offset, key=lambda place: place[0]) - 1
    start, number = places[before] if before >= 0 else (0, 1)
    return number + content.count("\n", start, offset)


def _redact_value(name: str, value: Any, redactor: Redactor) -> tuple[Any, list[FieldFinding]]:
    if isinstance(value, str):
        redacted = redactor(value)
        return redacted.text, [FieldFinding(name, finding) for finding in redacted.findings]
    if isinstance(value, list):
        pairs = [_redact_value(f"{name}.{at}", item, redactor) for at, item in enumerate(value)]
        return [item for item, _ in pairs], [each for _, found in pairs for each in found]
    return value, []


def _move_places(fields: dict[str, Any], content: str, findings: Sequence[SecretFinding]) -> None:
    file = fields.get("file")
    if isinstance(file, dict):
        by_line = file.get("unit") == "line"
        fields["file"] = {**file, "places": moved_places(file["places"], content, findings, by_line=by_line)}


def _refusal(found: Iterable[FieldFinding], what: str) -> SecretRefused:
    places = [f"{each.finding.kind} in {each.field} at {each.finding.start}" for each in found]
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return SecretRefused(f"{what}: it holds secrets: {', '.join(places[:MOST_NAMED])}{more}")
