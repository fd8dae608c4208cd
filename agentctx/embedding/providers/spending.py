"""A provider's spending today, kept in a small file, and the cap that stops calls until midnight UTC.

It is a file beside the database rather than a table, so that restoring an older database does not reset the
spending, and providers need not know about storage. It is replaced after every paid call, so a kill loses
only the calls in flight. It is not synced: a power cut may lose the last seconds.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from agentctx.config.bounded_files import read_bounded
from agentctx.embedding.providers.prices import Price, format_usd
from agentctx.errors import SpendCapReached

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch."""

FILE_NAME: Final = "spending.json"
NEXT_FILE_NAME: Final = "spending-next.json"
"""The file for the model of `embedding.next`, which has a price and a cap of its own."""
_DAY_MS: Final = 86_400_000
_DAYS_KEPT: Final = 31
_MAX_BYTES: Final = 65_536

log = structlog.get_logger("agentctx.spending")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens sent to a provider, and their cost in USD as far as prices are known."""

    tokens: int = 0
    usd: float = 0.0

    def plus(self, tokens: int, usd: float) -> TokenUsage:
        return TokenUsage(self.tokens + tokens, self.usd + usd)


@dataclass(slots=True)
class Charge:
    """The cost of one call: the estimate until the answer gives the actual figure."""

    tokens: int

    def void(self) -> None:
        """Mark the call as not billed: it was refused, or never arrived."""
        self.tokens = 0


class Spending:
    """Counts the cost of calls per UTC day, and refuses calls that would exceed the cap.

    Args:
        price: None if unknown: tokens are counted, and no cap can be enforced.
        cap_usd: the daily cap; 0 means none.
        folder: the folder of the file with the count; None keeps it in memory.
        clock: milliseconds since the epoch, which determine the day.
    """

    def __init__(
        self,
        price: Price | None = None,
        cap_usd: float = 0.0,
        *,
        folder: Path | None = None,
        file_name: str = FILE_NAME,
        clock: Clock,
    ) -> None:
        self.price = price
        self.cap_usd = cap_usd
        self._clock = clock
        self._path = folder / file_name if folder else None
        self._days = _read(self._path) if self._path else {}
        self._reserved_usd = 0.0
        self._refused_on = ""
        self.since_start = TokenUsage()

    def today(self) -> TokenUsage:
        """The spending since 00:00 UTC, without calls in flight."""
        return self._days.get(self._day(), TokenUsage())

    @property
    def is_cap_reached(self) -> bool:
        """Whether a call was refused today, or nothing is left of the cap."""
        return bool(self.cap_usd) and (self._refused_on == self._day() or self.today().usd >= self.cap_usd)

    @contextmanager
    def call(self, tokens: int) -> Iterator[Charge]:
        """Count a call of about `tokens` tokens at its end, even if it fails, unless it was voided.

        Raises:
            SpendCapReached: the call would exceed the cap; `retry_after_s` lasts until midnight UTC.
        """
        reserved_usd = self._usd(tokens)
        if self.cap_usd and self.today().usd + self._reserved_usd + reserved_usd > self.cap_usd:
            raise self._refusal()
        charge = Charge(tokens)
        self._reserved_usd += reserved_usd
        try:
            yield charge
        finally:
            self._reserved_usd -= reserved_usd
            self._count(charge.tokens)

    def _count(self, tokens: int) -> None:
        if not tokens:
            return
        usd = self._usd(tokens)
        day = self._day()
        # Reinserted last, so that days are in the order of their last change whatever the clock does.
        self._days[day] = self._days.pop(day, TokenUsage()).plus(tokens, usd)
        self.since_start = self.since_start.plus(tokens, usd)
        for oldest in list(self._days)[:-_DAYS_KEPT]:
            del self._days[oldest]
        if self._path:
            _write(self._path, self._days)

    def _refusal(self) -> SpendCapReached:
        self._refused_on = self._day()
        return SpendCapReached(
            f"The next call would exceed the daily spending cap: {format_usd(self.today().usd)} of "
            f"{format_usd(self.cap_usd)} are spent. Embedding resumes at 00:00 UTC.",
            retry_after_s=(_DAY_MS - self._clock() % _DAY_MS) / 1_000,
        )

    def _usd(self, tokens: int) -> float:
        return self.price.usd(tokens) if self.price else 0.0

    def _day(self) -> str:
        return datetime.fromtimestamp(self._clock() / 1_000, UTC).date().isoformat()


def _read(path: Path) -> dict[str, TokenUsage]:
    """Read the days in a file; none if it is missing or unreadable."""
    try:
        days = json.loads(read_bounded(path, _MAX_BYTES))["days"]
        return {str(day): _usage(row) for day, row in days.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        log.warning("spending_not_readable", path=str(path), reason=type(error).__name__)
        return {}


def _usage(row: Mapping[str, Any]) -> TokenUsage:
    tokens, usd = int(row["tokens"]), float(row["usd"])
    if tokens < 0 or not (math.isfinite(usd) and usd >= 0):
        raise ValueError("no amount")
    return TokenUsage(tokens, usd)


def _write(path: Path, days: Mapping[str, TokenUsage]) -> None:
    """Replace the file atomically. A failed write is logged; counting continues in memory."""
    rows = {day: {"tokens": usage.tokens, "usd": round(usage.usd, 9)} for day, usage in days.items()}
    new = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump({"days": rows}, file)
        new.replace(path)
    except OSError as error:
        log.warning("spending_not_written", path=str(path), reason=error.strerror)
