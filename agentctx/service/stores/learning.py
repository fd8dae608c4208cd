"""How learnings change: occurrences are counted, and outcomes determine the confidence. No I/O.

A learning is one fix of one error: what is counted belongs to its fix. An occurrence without a fix is counted
in one of the error's learnings, and the first fix is added to the learning that has none; another fix is
another learning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from agentctx.config.schema import LimitSettings
from agentctx.service.stores.collection_rules import BUILT_IN, NEW_COUNTS, FieldValues
from agentctx.service.stores.drafts import known_fields, list_limits, newest, revised_draft
from agentctx.service.stores.fields import MAX_COUNT, check
from agentctx.storage.records import Draft, Entry, Revision

_RULES = BUILT_IN["learning"]
_STAYS: Final = frozenset({"trigger", "error_pattern", "fix"})
"""What identifies a learning: an occurrence may say it in other words, but does not change it."""


def confidence(successes: int, failures: int) -> float:
    """Apply Laplace's rule of succession: 0.5 without evidence, more after successes, less after failures."""
    return round((successes + 1) / (successes + failures + 2), 4)


def repetition(limits: LimitSettings) -> Revision:
    """Return the revision of a learning whose error recurred: what was given is added, and it is counted."""

    def revision(entry: Entry, draft: Draft | None) -> Draft:
        given = draft.attributes if draft else {}
        occurrences = min(_counts(entry)["occurrences"] + 1, MAX_COUNT)
        revised = _revised(
            entry, limits, _merged(_known(entry, limits), given, limits), occurrences=occurrences
        )
        if draft is None:
            return revised
        return replace(
            revised,
            trust=draft.trust,
            expires=draft.expires or entry.expires,
            derived_from=draft.derived_from,
            principal=draft.principal,
        )

    return revision


def applied(limits: LimitSettings, *, success: bool) -> Revision:
    """Return a revision that counts one outcome."""

    def revision(entry: Entry, _: Draft | None) -> Draft:
        counts = _counts(entry)
        name = "successes" if success else "failures"
        counts[name] = min(counts[name] + 1, MAX_COUNT)
        counts["confidence"] = confidence(int(counts["successes"]), int(counts["failures"]))
        return _revised(entry, limits, _known(entry, limits), **counts)

    return revision


def _merged(known: FieldValues, given: FieldValues, limits: LimitSettings) -> dict[str, Any]:
    lists = dict(list_limits(limits))
    added = {
        name: newest(known.get(name, ()), value, lists[name]) if name in lists else value
        for name, value in given.items()
        if name in _RULES.fields and not (name in _STAYS and name in known)
    }
    if given.get("category") == _RULES.model.model_fields["category"].default:
        del added["category"]
    return {**known, **added}


def _known(entry: Entry, limits: LimitSettings) -> dict[str, Any]:
    return known_fields(_RULES, entry, limits)


def _counts(entry: Entry) -> dict[str, int | float]:
    return {name: entry.attributes.get(name, start) for name, start in NEW_COUNTS.items()}


def _revised(entry: Entry, limits: LimitSettings, values: FieldValues, **counts: float) -> Draft:
    checked = check(_RULES.model, values, limits, what="This learning cannot be changed")
    draft = revised_draft(entry, _RULES, checked, expires=entry.expires)
    return replace(draft, attributes={**draft.attributes, **counts})
