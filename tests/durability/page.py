"""Generate the table of docs/durability.md from docs/durability.json; a test compares them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.durability.tally import FILE, Total

PAGE = FILE.with_suffix(".md")
BEGIN, END = "<!-- numbers: made by `make torture` -->\n", "<!-- end of numbers -->\n"


def numbers(totals: Mapping[str, Total]) -> str:
    """Return the table: a row for each suite, and the machine."""
    rows = ["| suite | tried | violations | runs | last seed | last run |", "|---|---|---|---|---|---|"]
    rows += [_row(name, total) for name, total in sorted(totals.items())]
    machines = " and ".join(sorted({total.machine for total in totals.values()}))
    return "\n".join(rows) + f"\n\nMachine: {machines}. `durability.json` has more figures of each suite.\n"


def updated(page: str, totals: Mapping[str, Total]) -> str:
    """Return the page with the table of these totals."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{numbers(totals)}\n{END}{after}"


def write(totals: Mapping[str, Total], page: Path = PAGE) -> None:
    page.write_text(updated(page.read_text(encoding="utf-8"), totals), encoding="utf-8")


def _row(name: str, total: Total) -> str:
    tried = f"{total.n:,} {total.unit}"
    return f"| {name} | {tried} | {total.violations} | {total.runs} | {total.last_seed} | {total.date} |"
