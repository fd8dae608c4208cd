"""The periods that a question or a text names, and the passages that are about them. English only. No I/O.

A period is a span of days. `last week` is the one before, from Monday to Sunday; `in May`, the latest May
that has begun; `on Tuesday`, the latest one before today.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from agentctx.service.rag.candidate import Candidate
from agentctx.service.rag.dates import MONTHS
from agentctx.storage.search import ResolvedChunk

if TYPE_CHECKING:
    import regex

COMPARABLE: Final = 0.5
"""Share of the best relevance that puts a passage about the period first; others keep so much of theirs."""

_DAY: Final = timedelta(days=1)
_NEAR: Final = {"day before yesterday": -2, "yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}
_DAYS_OF: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_TO_TEN: Final = "one two three four five six seven eight nine ten".split()  # noqa: SIM905
_NUMBERS: Final = {"a": 1, "an": 1, "a couple of": 2, "a few": 3} | dict(
    zip(_TO_TEN, range(1, 11), strict=True)
)
_WEEKDAYS: Final = "mon tue wed thu fri sat sun".split()  # noqa: SIM905


def _words(names: Iterable[str]) -> str:
    return "|".join(names).replace(" ", r"\s")


_MONTH: Final = rf"(?P<month>(?:{_words(MONTHS)})\b)\.?"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_OF_MONTH: Final = r"(?P<day>\d\d?)(?:st|nd|rd|th)?\b"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b(?!%|[.:,/]\d)"
_COUNTED: Final = rf"(?P<count>\d{{1,3}}|{_words(_NUMBERS)})\s+(?P<days>{_words(_DAYS_OF)})s?\b"
_PERIOD: Final = rf"""(?<![\w-])
(?:(?P<bound>since|after|from(?=[^.?!]{{3,30}}\s(?:to|until|through)\s)|between|before|until|till|by|in|on|during|of)\s+)?(?:the\s+)?
(?: {_YEAR}-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?![\d-])
  | {_OF_MONTH}\s+(?:of\s+)?{_MONTH}(?:,?\s*{_YEAR})?
  | {_MONTH}\s+{_OF_MONTH}(?:,?\s*{_YEAR})?
  | {_MONTH},?\s+{_YEAR}
  | (?P<which>last|past|previous|this|next)\s+(?:(?P<unit>week|month|year|{_WEEKDAY})\b|{_MONTH})
  | (?:last|past)\s+{_COUNTED}
  | {_COUNTED}\s+(?P<ago>ago)\b
  | (?P<near>{_words(_NEAR)})\b
  | (?(bound)(?:{_MONTH}|(?P<unit>{_WEEKDAY})\b|{_YEAR}(?!-))|(?!))
)"""


class Period(NamedTuple):
    """The days from `first` to `last`."""

    first: date
    last: date


def periods_in(text: str, today: date) -> list[Period]:
    """Return the periods that a text written on this day names, in order."""
    found = []
    for match in _pattern().finditer(text):
        named = {name: value.lower() for name, value in match.groupdict().items() if value}
        try:
            found.append(_bounded(named.get("bound", ""), _named(named, today)))
        except (ValueError, OverflowError):  # no such day
            continue
    return found


def is_about(periods: Sequence[Period], text: str, saved: date) -> bool:
    """Return whether a text is about one of the periods.

    A text that names days up to its saving is about these; any other is about the day it was saved, and any
    later ones that it names. `since` and `before` in it count for nothing: most periods would overlap.
    """
    named = [each for each in periods_in(text, saved) if date.min < each.first and each.last < date.max]
    if not any(each.first <= saved for each in named):
        named.append(Period(saved, saved))
    return any(
        each.first <= period.last and period.first <= each.last for each in named for period in periods
    )


def narrowed(
    ranked: Sequence[Candidate],
    texts: Mapping[int, ResolvedChunk],
    periods: Sequence[Period],
    zone: tzinfo | None = None,
) -> list[Candidate]:
    """Put the candidates first that are about one of the periods and `COMPARABLE` to the best.

    If there are any, the others become that much less relevant. If there are none, nothing changes.
    """
    least = COMPARABLE * max((each.relevance for each in ranked), default=0.0)
    first = {
        each.chunk
        for each in ranked
        if periods and each.relevance >= least
        if is_about(periods, texts[each.chunk].content, day_of(texts[each.chunk].entry.updated, zone))
    }
    if not first:
        return list(ranked)
    return [
        *(each for each in ranked if each.chunk in first),
        *(each._replace(relevance=COMPARABLE * each.relevance) for each in ranked if each.chunk not in first),
    ]


def day_of(ms: int, zone: tzinfo | None = None) -> date:
    """Return the day of a time in a zone, by default the machine's."""
    return datetime.fromtimestamp(ms / 1_000, zone).date()


@cache
def _pattern() -> regex.Pattern[str]:
    import regex

    return regex.compile(_PERIOD, regex.IGNORECASE | regex.VERBOSE)


def _named(named: Mapping[str, str], today: date) -> Period:
    """Read what the groups of `_PERIOD` name."""
    if near := named.get("near"):
        day = today + _NEAR[near] * _DAY
        return Period(day, day)
    if count := named.get("count"):
        length = _DAYS_OF[named["days"]]
        began = today - (_NUMBERS.get(count) or int(count)) * length * _DAY
        return (
            Period(began - length // 2 * _DAY, began + length // 2 * _DAY)
            if "ago" in named
            else Period(began, today)
        )
    step = {"this": 0, "next": 1}.get(named.get("which", ""), -1)
    if unit := named.get("unit"):
        return _unit(unit, step, today)
    return _calendar(named.get("year"), named.get("month"), named.get("day"), today, step)


def _unit(unit: str, step: int, today: date) -> Period:
    """Return the week, month, year or weekday that is last (-1), this (0) or next (1)."""
    if unit == "week":
        monday = today + (7 * step - today.weekday()) * _DAY
        return Period(monday, monday + 6 * _DAY)
    if unit == "month":
        months = today.year * 12 + today.month - 1 + step
        return _calendar(str(months // 12), str(months % 12 + 1), None, today)
    if unit == "year":
        return _calendar(str(today.year + step), None, None, today)
    ahead = (_WEEKDAYS.index(unit[:3]) - today.weekday()) % 7
    day = today + (ahead - 7 if step < 0 else ahead or 7 * step) * _DAY
    return Period(day, day)


def _calendar(year: str | None, month: str | None, day: str | None, today: date, step: int = -1) -> Period:
    """Return a year, month or day; without its year the latest that has begun, or by `step` a coming one."""
    if month is None:
        return Period(date(int(year or 0), 1, 1), date(int(year or 0), 12, 31))
    number = int(month) if month.isdigit() else MONTHS[month]
    latest = today.year - ((number, int(day or 1)) > (today.month, today.day))
    in_year = int(year) if year else latest + (step >= 0 and (latest, number) < (today.year, today.month))
    first = date(in_year, number, int(day or 1))
    return Period(first, first if day else first.replace(day=monthrange(in_year, number)[1]))


def _bounded(bound: str, period: Period) -> Period:
    if bound in ("since", "from", "between"):
        return Period(period.first, date.max)
    if bound == "after":
        return Period(period.last + _DAY, date.max)
    if bound == "before":
        return Period(date.min, period.first - _DAY)
    return Period(date.min, period.last) if bound in ("until", "till", "by") else period
