"""Where settings come from: flags > environment > systemd credentials > file > defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agentctx.config.origins import Given, KeyPath, merged, origin_of
from agentctx.config.paths import config_candidates
from agentctx.config.problems import Problem, config_invalid, refused, shown
from agentctx.config.schema import Settings
from agentctx.config.sources import read_sources
from agentctx.errors import ConfigInvalid


@dataclass(frozen=True, slots=True)
class Reading:
    """All sources as they are. `settings` is None when there are problems."""

    file: Path | None
    given: list[Given]
    settings: Settings | None
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting as the daemon uses it. `value` is JSON; secrets are masked."""

    key: str
    value: Any
    origin: str
    changed: bool
    """Whether it differs from the default."""


def load_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """All sources merged.

    Args:
        config: the file to read; without it the first of `paths.config_candidates()` that exists.
        flags: values that win over everything, like `{"data_dir": …}`.

    Raises:
        ConfigInvalid: a file is missing or no TOML, a key is unknown, a value has the wrong type.
    """
    reading = read_settings(config, flags)
    if reading.settings is None:
        raise config_invalid(reading.problems)
    return reading.settings


def read_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> Reading:
    """As `load_settings`, but keeps who said what, and gives every problem instead of raising.

    Raises:
        ConfigInvalid: there is no file `config`.
    """
    file = _config_file(config)
    given, problems = read_sources(file, flags or {})
    settings, found = _validated(given, file)
    problems += found
    return Reading(file, given, None if problems else settings, problems)


def effective_values(settings: Settings, given: list[Given]) -> list[Effective]:
    """Every setting with its origin, in the order of the schema; own collections last."""
    defaults = dict(_values(Settings()))
    return [
        Effective(
            ".".join(path),
            value,
            str(origin_of(path, given)),
            path not in defaults or value != defaults[path],
        )
        for path, value in _values(settings)
    ]


def _config_file(named: Path | None) -> Path | None:
    if named is not None and not named.is_file():
        raise ConfigInvalid(f"there is no config file {named}", hint="Name an existing file with --config.")
    return named or next((path for path in config_candidates() if path.is_file()), None)


def _validated(given: list[Given], file: Path | None) -> tuple[Settings | None, list[Problem]]:
    try:
        return Settings.model_validate(merged(given)), []
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
    text = file.read_text(encoding="utf-8", errors="replace") if file else ""
    return None, [refused(each, given, file, text) for each in found]


def _values(model: BaseModel, prefix: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        path = (*prefix, name)
        if isinstance(value, BaseModel):
            yield from _values(value, path)
        elif isinstance(value, dict):
            for key, below in value.items():
                yield from _values(below, (*path, key))
        else:
            yield path, shown(value)
