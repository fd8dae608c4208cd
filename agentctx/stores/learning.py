"""How learnings change: occurrences are counted, and outcomes determine the confidence. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agentctx.storage.records import Draft, Entry, Revision
from agentctx.stores.drafts import revised_draft
from agentctx.stores.kinds import KINDS, NEW_COUNTS

_KIND = KINDS["learning"]


def confidence(successes: int, failures: int) -> float:
    """Apply Laplace's rule of succession: 0.5 without evidence, more after successes, less after failures."""
    return round((successes + 1) / (successes + failures + 2), 4)


def repeated_draft(entry: Entry, draft: Draft | None) -> Draft:
    """Return the learning after its error recurred: given fields replace the old ones, counts continue."""
    known = _KIND.fields_of(entry)
    given = draft.attributes if draft else {}
    new = {name: given[name] for name in _KIND.fields & given.keys()}
    tags = list(dict.fromkeys([*known.get("tags", []), *new.get("tags", [])]))
    revised = _revised(entry, {**known, **new, "tags": tags}, occurrences=_counts(entry)["occurrences"] + 1)
    if draft is None:
        return revised
    return replace(
        revised,
        trust=draft.trust,
        expires=draft.expires or entry.expires,
        derived_from=draft.derived_from,
        principal=draft.principal,
    )


def applied(*, success: bool) -> Revision:
    """Return a revision that counts one outcome."""

    def revision(entry: Entry, _: Draft | None) -> Draft:
        counts = _counts(entry)
        counts["successes" if success else "failures"] += 1
        counts["confidence"] = confidence(int(counts["successes"]), int(counts["failures"]))
        return _revised(entry, _KIND.fields_of(entry), **counts)

    return revision


def _counts(entry: Entry) -> dict[str, int | float]:
    return {name: entry.attributes.get(name, start) for name, start in NEW_COUNTS.items()}


def _revised(entry: Entry, values: Mapping[str, Any], **counts: float) -> Draft:
    draft = revised_draft(entry, _KIND, values, expires=entry.expires)
    return replace(draft, attributes={**draft.attributes, **counts})


REVISIONS: Final[Mapping[str, Revision]] = {"learning": repeated_draft}
"""How saving an entry again revises it, by collection; elsewhere the new draft replaces it."""
