"""The rules of each collection: its fields, and how content, key and attributes follow from them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from operator import itemgetter
from typing import Any, TypeAlias

from agentctx.service.stores.error_key import error_key
from agentctx.service.stores.fields import (
    CustomFields,
    Fields,
    KnowledgeFields,
    LearningFields,
    ObservationFields,
    ReflectionFields,
)
from agentctx.storage import supersession
from agentctx.storage.records import Entry

FieldValues: TypeAlias = Mapping[str, Any]
"""The fields of an entry by name, as `fields.check` returns them: with defaults, without None."""

NEW_COUNTS: Mapping[str, int | float] = {"occurrences": 1, "successes": 0, "failures": 0, "confidence": 0.5}
"""The attributes of a learning that are counted by the store, with their initial values."""


def _key(values: FieldValues) -> str | None:
    return values.get("key")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRules:
    """The rules of one collection."""

    model: type[Fields]
    kept: tuple[str, ...]
    """Fields that are stored as attributes."""
    counts: Mapping[str, int | float] = field(default_factory=dict)
    """Attributes counted by the store, with their initial values."""
    content: Callable[[FieldValues], str] = itemgetter("content")
    key: Callable[[FieldValues], str | None] = _key
    needs_session: bool = False
    is_dated: bool = False
    """Whether the embedded header contains the day: true for events, false for lasting knowledge."""

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self.model.model_fields)

    def fields_of(self, entry: Entry) -> dict[str, Any]:
        """Return the fields from which an entry was made."""
        values = {**entry.attributes, "content": entry.content, "key": entry.key}
        return {name: values[name] for name in self.fields if values.get(name) is not None}

    def attributes(self, values: FieldValues) -> dict[str, Any]:
        """Return the attributes of a new entry."""
        return {**{name: values[name] for name in self.kept if name in values}, **self.counts}


def learning_content(values: FieldValues) -> str:
    """Return the fields of a learning as one text."""
    named = (("Error", "error_pattern"), ("Diagnosis", "diagnosis"), ("Fix", "fix"))
    parts = (f"{title}: {values[name]}" for title, name in named if values.get(name))
    return "\n".join([values["trigger"], *parts])


def learning_key(values: FieldValues) -> str:
    """Return the trigger with a digest of the error and, if there is one, a digest of the fix.

    So an error that recurs is counted in one entry for each of its fixes.
    """
    error, fix = key_of_error(values), values.get("fix")
    return f"{error}.{_digest(' '.join(fix.split()))}" if fix else error


def key_of_error(values: FieldValues) -> str:
    """Return the key of a learning without a fix, with which those of the same error that have one begin."""
    pattern, trigger = values.get("error_pattern"), values["trigger"]
    name = "".join(filter(str.isprintable, " ".join(trigger.split())))[:80]
    what = error_key(pattern) if pattern else values.get("diagnosis", "")
    digest = _digest(f"{trigger}\n{what}")
    return f"{name}#{digest}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def key_and_tags(values: FieldValues) -> str:
    """Return the key and the tags, which are searched and embedded in addition to the text."""
    return joined([values.get("key"), *values.get("tags", ())])


def joined(parts: Iterable[str | None]) -> str:
    """Join the non-empty parts with spaces."""
    return " ".join(filter(None, parts))


_SHARED = ("tags", "cues", "source", *supersession.FIELDS)
"""Fields that every collection keeps."""

BUILT_IN: Mapping[str, CollectionRules] = {
    "knowledge": CollectionRules(model=KnowledgeFields, kept=("category", *_SHARED, "file")),
    "observation": CollectionRules(
        model=ObservationFields,
        kept=tuple(name for name in ObservationFields.model_fields if name != "content"),
        needs_session=True,
        is_dated=True,
    ),
    "reflection": CollectionRules(
        model=ReflectionFields,
        kept=(*_SHARED, "token_count", "generation"),
        needs_session=True,
        is_dated=True,
    ),
    "learning": CollectionRules(
        model=LearningFields,
        kept=tuple(LearningFields.model_fields),
        counts=NEW_COUNTS,
        content=learning_content,
        key=learning_key,
    ),
}
CUSTOM = CollectionRules(model=CustomFields, kept=(*_SHARED, "file"))

ENTRY_FIELDS = CUSTOM.fields.union(*(rules.fields for rules in BUILT_IN.values()))
"""The fields of an entry in any collection; a request's others say where, by whom and how it is saved."""
