"""Redacts secrets in an entry's fields before anything is stored, queued, sent or logged. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agentctx.errors import SecretRefused
from agentctx.names import MAX_NAME_CHARS, normalised
from agentctx.text.redaction.redactor import Redactor, SecretFinding

MAX_NAMED: Final = 10
"""How many secrets a refusal lists."""

FilePositions: TypeAlias = Sequence[Sequence[int]]
"""Positions in a file: pairs `[offset in content, number]`, ascending, as in `wire.FileRecord`."""


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """A secret and the field that contains it, like `content` or `tags.0`."""

    field: str
    finding: SecretFinding


def redact_fields(
    fields: Mapping[str, Any], redactor: Redactor, *, what: str = "This entry cannot be saved"
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields with secrets redacted, also in lists, and the kinds of secrets in the order found.

    The positions in a file are adjusted to the redacted text.

    Raises:
        SecretRefused: there are secrets, and the redactor refuses them.
    """
    redacted: dict[str, Any] = {}
    findings: list[FieldFinding] = []
    for name, value in fields.items():
        redacted[name], in_field = _redact_value(name, value, redactor)
        findings += in_field
    if findings and redactor.refuses:
        raise _refusal(findings, what)
    if not findings:
        return redacted, ()
    if in_content := [each.finding for each in findings if each.field == "content"]:
        _move_positions(redacted, fields["content"], in_content)
    return redacted, tuple(dict.fromkeys(each.finding.kind for each in findings))


def redact_name(name: str | None, redactor: Redactor) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of a session or an agent, or a key, as it is stored: normalised and redacted.

    It is never refused, even if the fields of an entry are. A name that redaction makes longer than a name
    may be is cut.
    """
    if name is None:
        return None, ()
    redacted = redactor.of_name(normalised(name))
    return redacted.text[:MAX_NAME_CHARS], redacted.kinds if redacted.findings else ()


def moved_positions(
    positions: FilePositions, content: str, findings: Sequence[SecretFinding], *, by_line: bool
) -> list[list[int]]:
    """Adjust the positions to the text after the findings are redacted.

    A position within a secret moves to the end of its replacement. With `by_line`, a finding that contains
    line breaks adds a position behind it, with the number of the line on which the text continues.
    """
    offsets = _OffsetMap(findings)
    moved = {offsets.moved(offset): number for offset, number in positions}
    for finding in findings if by_line else ():
        if "\n" in content[finding.start : finding.end]:
            moved[offsets.moved(finding.end)] = _line_at(finding.end, positions, content)
    return [[offset, moved[offset]] for offset in sorted(moved)]


class _OffsetMap:
    """Maps offsets of the original text to offsets of the redacted text."""

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


def _line_at(offset: int, positions: FilePositions, content: str) -> int:
    before = bisect_right(positions, offset, key=lambda position: position[0]) - 1
    start, number = positions[before] if before >= 0 else (0, 1)
    return number + content.count("\n", start, offset)


def _redact_value(name: str, value: Any, redactor: Redactor) -> tuple[Any, list[FieldFinding]]:
    if isinstance(value, str):
        text, findings = redactor(value)
        return text, [FieldFinding(name, finding) for finding in findings] if findings else []
    if isinstance(value, list) and value:
        pairs = [_redact_value(f"{name}.{at}", item, redactor) for at, item in enumerate(value)]
        return [item for item, _ in pairs], [each for _, found in pairs for each in found]
    return value, []


def _move_positions(fields: dict[str, Any], content: str, findings: Sequence[SecretFinding]) -> None:
    file = fields.get("file")
    if isinstance(file, dict):
        by_line = file.get("unit") == "line"
        fields["file"] = {
            **file,
            "places": moved_positions(file["places"], content, findings, by_line=by_line),
        }


def _refusal(found: Iterable[FieldFinding], what: str) -> SecretRefused:
    secrets = [f"{each.finding.kind} in {each.field} at {each.finding.start}" for each in found]
    more = f" and {len(secrets) - MAX_NAMED} more" if len(secrets) > MAX_NAMED else ""
    return SecretRefused(f"{what}: it contains secrets: {', '.join(secrets[:MAX_NAMED])}{more}")
