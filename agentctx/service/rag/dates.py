"""Dates in a text, in any usual form, as "2026-11-03", with `*` for what is not said. No I/O."""

from __future__ import annotations

import re
from calendar import day_name, month_name
from collections.abc import Iterator

MONTHS = {
    form: number
    for number, name in enumerate(month_name)
    for form in (name.lower(), name[:3].lower(), name[:4].lower())
    if name
}
CALENDAR = frozenset(MONTHS) | {name.lower() for name in day_name}
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY = r"(?:\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?<![\w.])(?:"
    r"(?P<iso>\d{4}-\d\d(?:-\d\d)?)(?![-\d])|(?P<one>\d{1,2})[./](?P<two>\d{1,2})[./](?P<year>\d{4}|\d\d)"
    rf"|(?:(?P<day>{_DAY})\.?\s+(?:of\s+)?)?(?P<month>{_MONTH})\b\.?"
    rf"(?:\s+(?P<day_after>{_DAY})\b(?!:))?(?:,?\s+(?P<y>(?:19|20)\d\d))?)\b",
    re.I,
)


def dates_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield each date with the word before it, and both readings of 03/11/2026; a month alone is none."""
    for match in _DATE.finditer(text):
        before, part = text[: match.start()].rstrip(" (").rpartition(" ")[2].lower(), match.groupdict()
        if part["iso"]:
            yield before, f"{part['iso']}-*"[:10]
        elif part["one"]:
            days = {(int(part["one"]), int(part["two"])), (int(part["two"]), int(part["one"]))}
            year = part["year"] if len(part["year"]) == 4 else f"20{part['year']}"
            yield from ((before, f"{year}-{month:02}-{day:02}") for day, month in sorted(days) if month < 13)
        elif (day := part["day"] or part["day_after"]) or part["y"]:
            number = f"{int(re.sub(r'[a-z]+', '', day, flags=re.I)):02}" if day else "*"
            yield before, f"{part['y'] or '*'}-{MONTHS[part['month'].lower()]:02}-{number}"


def can_be_same(one: str, other: str) -> bool:
    """Return whether two dates can be the same day, as far as they are said."""
    return all(
        mine == theirs or "*" in (mine, theirs)
        for mine, theirs in zip(one.split("-"), other.split("-"), strict=True)
    )
