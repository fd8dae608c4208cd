"""The fields of each collection's entries: strict models with limits. Errors are `InvalidInput`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from agentctx.config.schema import LimitSettings
from agentctx.errors import InvalidInput, TooLarge
from agentctx.names import MAX_NAME_CHARS, NAMESPACE_RULE, UNPRINTABLE, is_namespace, normalised
from agentctx.plain_values import shown
from agentctx.storage.chunk_texts import MAX_CUE_CHARS, MAX_CUES
from agentctx.wire import PlaceUnit, TurnPart

KnowledgeCategory = Literal["rule", "definition", "preference", "fact", "pattern", "correction"]
LearningCategory = Literal[
    "tool_error", "provider_error", "user_correction", "timeout", "permission", "general"
]

MAX_TAG_CHARS = 64
MAX_SOURCE_CHARS = 2_048
MAX_LINKS = 64
"""How many entries one entry may supersede, and resolve."""
MAX_COUNT = 2**53
"""Greater numbers are not exact in JSON."""
MAX_LEARNING_CHARS = 16_384
"""Limit of a learning's trigger, pattern, diagnosis and fix."""


def _limits(info: ValidationInfo) -> LimitSettings:
    return info.context if isinstance(info.context, LimitSettings) else LimitSettings()


def _clean(text: str) -> str:
    if "\x00" in text:
        raise ValueError("has a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has a lone surrogate, which is not valid text") from None
    if not text.strip():
        raise ValueError("is empty")
    return text


def _printable(text: str) -> str:
    cleaned = _clean(text)
    if not cleaned.isprintable() and re.search(UNPRINTABLE, cleaned):
        raise ValueError("has a line break or control character")
    return cleaned


def _named(text: str, limit: int) -> str:
    """Return a name as it is stored; composing characters can make it longer."""
    name = _printable(normalised(text))
    if len(name) > limit:
        raise ValueError(f"has {len(name)} characters; the limit is {limit}")
    return name


def is_plain_name(name: str | None) -> bool:
    """Return whether a name is certainly valid, as most are; of the others, only the model can tell."""
    if name is None:
        return True
    return 0 < len(name) <= MAX_NAME_CHARS and name.isascii() and name.isprintable() and not name.isspace()


def _key(text: str) -> str:
    """Return a valid key unchanged: for a file it is the path, in which each character counts."""
    _named(text, MAX_NAME_CHARS)
    return _printable(text)


def check_namespace(name: str) -> str:
    """Return the namespace. Raises `InvalidInput` if no entry can be in it."""
    if not is_namespace(name):
        raise InvalidInput(f"The namespace {shown(name)!r} is not valid.", hint=NAMESPACE_RULE)
    return name


def _content(text: str, info: ValidationInfo) -> str:
    cleaned = _clean(text)
    if len(cleaned) > (limit := _limits(info).max_content_chars):
        raise TooLarge(f"The content has {len(cleaned)} characters; the limit is {limit}.", hint=_SPLIT_HINT)
    return cleaned


def _tags(tags: list[str], info: ValidationInfo) -> list[str]:
    distinct = list(dict.fromkeys(tags))
    if len(distinct) > (limit := _limits(info).max_tags):
        raise ValueError(f"has {len(distinct)} tags; the limit is {limit}")
    return distinct


def _cue(cue: str) -> str:
    return _printable(" ".join(_clean(cue).split()))


def _distinct(given: list[str] | None, limit: int, what: str) -> list[str] | None:
    distinct = list(dict.fromkeys(given or ()))
    if len(distinct) > limit:
        raise ValueError(f"has {len(distinct)} {what}; the limit is {limit}")
    return distinct or None


def _ascending(positions: list[list[int]]) -> list[list[int]]:
    if any(before[0] >= after[0] for before, after in pairwise(positions)):
        raise ValueError("is not ascending")
    return positions


_SPLIT_HINT = "Save it in several entries, or raise limits.max_content_chars."

Content = Annotated[str, AfterValidator(_content)]
Name = Annotated[str, AfterValidator(partial(_named, limit=MAX_NAME_CHARS))]
Key = Annotated[str, Field(max_length=MAX_NAME_CHARS), AfterValidator(_key)]
Tag = Annotated[str, AfterValidator(partial(_named, limit=MAX_TAG_CHARS))]
Tags = Annotated[list[Tag], AfterValidator(_tags)]
Cue = Annotated[str, Field(max_length=MAX_CUE_CHARS), AfterValidator(_cue)]
Cues = Annotated[list[Cue] | None, AfterValidator(partial(_distinct, limit=MAX_CUES, what="cues"))]
Source = Annotated[str, Field(max_length=MAX_SOURCE_CHARS), AfterValidator(_printable)]
LearningText = Annotated[str, Field(max_length=MAX_LEARNING_CHARS), AfterValidator(_clean)]
FilePosition = Annotated[list[Annotated[int, Field(ge=0, le=MAX_COUNT)]], Field(min_length=2, max_length=2)]
Links = Annotated[list[Key] | None, AfterValidator(partial(_distinct, limit=MAX_LINKS, what="entries"))]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class Fields(BaseModel):
    """Base of the models: no coercion, unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class FileFields(Fields):
    """The file whose text an entry holds; `wire.FileRecord` describes the fields."""

    digest: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    size: Count
    modified: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    part: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    parts: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    unit: PlaceUnit = "line"
    places: Annotated[list[FilePosition], Field(min_length=1, max_length=50_000), AfterValidator(_ascending)]
    device: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    folder: Annotated[int, Field(ge=0, lt=2**63)] | None = None


class EntryFields(Fields):
    """What an entry of any collection may have."""

    tags: Tags = Field(default_factory=list)
    cues: Cues = None
    source: Source | None = None
    supersedes: Links = None
    resolves: Links = None


class KnowledgeFields(EntryFields):
    """Fields of knowledge, which is saved under a key."""

    key: Key
    content: Content
    category: KnowledgeCategory = "fact"
    file: FileFields | None = None


class ObservationFields(EntryFields):
    """Fields of an observation in a session; the indexes give the range of messages it was made from."""

    content: Content
    token_count: Count | None = None
    source_start_index: Count | None = None
    source_end_index: Count | None = None
    turn: Name | None = None
    part: TurnPart | None = None
    own_words: bool | None = None


class ReflectionFields(EntryFields):
    """Fields of a reflection on a session's observations; generation 2 reflects on reflections, and so on."""

    content: Content
    token_count: Count | None = None
    generation: Annotated[int, Field(ge=1, le=1_000)] = 1


class LearningFields(EntryFields):
    """Fields of a learning: what an error taught."""

    trigger: LearningText
    error_pattern: LearningText | None = None
    diagnosis: LearningText | None = None
    fix: LearningText | None = None
    category: LearningCategory = "general"


class CustomFields(EntryFields):
    """Fields of an entry in a collection declared in the config."""

    content: Content
    key: Key | None = None
    file: FileFields | None = None


class ContextFields(Fields):
    """The namespace, session and agent of an entry."""

    namespace: Annotated[str, AfterValidator(check_namespace)]
    session: Name | None = None
    agent: Name | None = None


def check(
    model: type[Fields], values: Mapping[str, Any], limits: LimitSettings, *, what: str
) -> dict[str, Any]:
    """Return the validated values, with defaults and without fields that are None.

    Raises:
        InvalidInput: names the invalid fields and their problems; never shows their text.
        TooLarge: the content is over its limit.
    """
    return validated(model, values, limits, what=what).model_dump(exclude_none=True)


def validated(model: type[Fields], values: Mapping[str, Any], limits: LimitSettings, *, what: str) -> Fields:
    """Return the validated model. Raises like `check`."""
    try:
        return model.model_validate(dict(values), context=limits)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)[:5]
        paths = [shown(".".join(map(str, problem["loc"]))) or "it" for problem in found]
        problems = "; ".join(f"{path} {_plain(each)}" for path, each in zip(paths, found, strict=True))
        known = ", ".join(model.model_fields)
        raise InvalidInput(f"{what}: {problems}.", hint=f"Its fields are {known}.") from None


def _plain(problem: Any) -> str:
    words = {"extra_forbidden": "is not a field of it", "missing": "is missing"}
    message = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    return words.get(problem["type"], message[:1].lower() + message[1:])
