"""Learnings: what an error taught, how often it occurred, and how well its fix worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agentctx.config.schema import LimitSettings
from agentctx.redaction.redactor import Redactor, no_redaction
from agentctx.screening.screener import Screener, no_screening
from agentctx.storage.base import Storage
from agentctx.storage.records import Draft, Entry, Revision, Saved
from agentctx.stores.base import EmbedCallback, EntryStore, SaveContext
from agentctx.stores.drafts import revised_draft
from agentctx.stores.fields import LearningCategory
from agentctx.stores.kinds import KINDS, NEW_COUNTS
from agentctx.times import Clock

_KIND = KINDS["learning"]


class LearningStore(EntryStore):
    """Stores learnings. A recurring error of the same trigger is counted in its existing entry."""

    def __init__(
        self,
        storage: Storage,
        on_saved: EmbedCallback | None = None,
        *,
        clock: Clock,
        limits: LimitSettings | None = None,
        redactor: Redactor = no_redaction,
        screener: Screener = no_screening,
    ) -> None:
        super().__init__(
            storage,
            {"learning": _KIND},
            on_saved,
            clock=clock,
            limits=limits,
            redactor=redactor,
            screener=screener,
            revisions=REVISIONS,
        )

    async def save(
        self,
        trigger: str,
        *,
        error_pattern: str | None = None,
        diagnosis: str | None = None,
        fix: str | None = None,
        category: LearningCategory = "general",
        tags: Sequence[str] = (),
        cues: Sequence[str] = (),
        source: str | None = None,
        context: SaveContext | None = None,
    ) -> Saved:
        """Save what an error taught. For a known error, count the occurrence and add the given fields."""
        values = {
            "trigger": trigger,
            "error_pattern": error_pattern,
            "diagnosis": diagnosis,
            "fix": fix,
            "category": category,
            "tags": list(tags),
            "cues": list(cues),
            "source": source,
        }
        given = {name: value for name, value in values.items() if value is not None}
        return await self.save_fields("learning", given, context or SaveContext())

    async def record_outcome(self, entry_id: str, *, success: bool, principal: int | None = None) -> Saved:
        """Record whether applying the learning worked, and update its confidence.

        Raises:
            NotFound: the learning does not exist.
        """
        await self.get(entry_id)
        return await self.revise(entry_id, applied(success=success), principal=principal)


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
