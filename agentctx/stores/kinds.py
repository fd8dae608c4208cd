"""How the fields of each collection become an entry's body, and back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agentctx.storage.records import Entry
from agentctx.stores.error_pattern import normalize_error
from agentctx.stores.fields import (
    CustomFields,
    Fields,
    KnowledgeFields,
    LearningFields,
    ObservationFields,
    ReflectionFields,
)

NEW_COUNTS: Mapping[str, int | float] = {"occurrences": 1, "successes": 0, "failures": 0, "confidence": 0.5}
"""The attributes of a learning that are counted, not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What is stored, searched and embedded of an entry."""

    content: str
    attributes: Mapping[str, Any]
    labels: str
    key: str | None = None
    about: str = ""
    """Key, trigger or tags: the part of the embedded header that the fields give."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The rules of one collection."""

    model: type[Fields]
    compose: Callable[[Any], Body]
    needs_session: bool = False
    is_dated: bool = False
    """Whether the embedded header names the day: for what happened, not for what is known."""

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self.model.model_fields)

    def fields_of(self, entry: Entry) -> dict[str, Any]:
        """The fields that `compose` made this entry of."""
        values = {**entry.attributes, "content": entry.content, "key": entry.key}
        return {name: values[name] for name in self.fields if values.get(name) is not None}


def knowledge_body(fields: KnowledgeFields) -> Body:
    return Body(
        content=fields.content,
        attributes=_attributes(fields, "category", "tags", "source", "file"),
        labels=_words([fields.key, *fields.tags]),
        key=fields.key,
        about=_words([fields.key, *fields.tags]),
    )


def observation_body(fields: ObservationFields) -> Body:
    kept = ("tags", "source", "token_count", "source_start_index", "source_end_index")
    return _plain_body(fields, fields.tags, kept)


def reflection_body(fields: ReflectionFields) -> Body:
    return _plain_body(fields, fields.tags, ("tags", "source", "token_count", "generation"))


def learning_body(fields: LearningFields) -> Body:
    """The same error of the same tool has the same key, so that it counts up one entry."""
    parts = [
        fields.trigger,
        f"Error: {fields.error_pattern}" if fields.error_pattern else "",
        f"Diagnosis: {fields.diagnosis}" if fields.diagnosis else "",
        f"Fix: {fields.fix}" if fields.fix else "",
    ]
    return Body(
        content="\n".join(part for part in parts if part),
        attributes={**_attributes(fields, *LearningFields.model_fields), **NEW_COUNTS},
        labels=_words(fields.tags),
        key=learning_key(fields),
        about=_words(fields.tags),
    )


def custom_body(fields: CustomFields) -> Body:
    return Body(
        content=fields.content,
        attributes=_attributes(fields, "tags", "source", "file"),
        labels=_words([fields.key or "", *fields.tags]),
        key=fields.key,
        about=_words([fields.key or "", *fields.tags]),
    )


def learning_key(fields: LearningFields) -> str:
    """The trigger and a digest of what went wrong, with ids, times, paths and numbers levelled."""
    pattern = fields.error_pattern
    what = normalize_error(pattern) if pattern else f"{fields.diagnosis}\n{fields.fix}"
    name = " ".join(fields.trigger.split())[:80]
    digest = sha256(f"{fields.trigger}\n{what}".encode()).hexdigest()[:12]
    return f"{name}#{digest}"


KINDS: Mapping[str, Kind] = {
    "knowledge": Kind(KnowledgeFields, knowledge_body),
    "observation": Kind(ObservationFields, observation_body, needs_session=True, is_dated=True),
    "reflection": Kind(ReflectionFields, reflection_body, needs_session=True, is_dated=True),
    "learning": Kind(LearningFields, learning_body),
}
CUSTOM_KIND = Kind(CustomFields, custom_body)


def _plain_body(
    fields: ObservationFields | ReflectionFields, tags: Iterable[str], kept: tuple[str, ...]
) -> Body:
    return Body(
        content=fields.content,
        attributes=_attributes(fields, *kept),
        labels=_words(tags),
        about=_words(tags),
    )


def _attributes(fields: Fields, *names: str) -> dict[str, Any]:
    values = ((name, getattr(fields, name)) for name in names)
    return {
        name: value.model_dump() if isinstance(value, Fields) else value
        for name, value in values
        if value is not None
    }


def _words(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)
