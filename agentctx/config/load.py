"""Where settings come from: flags > environment > systemd credentials > file > defaults."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
class SettingsReading:
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
        config: the file to read; without it that of `find_config_file`.
        flags: values that win over everything, like `{"data_dir": …}`.

    Raises:
        ConfigInvalid: a file is missing or no TOML, a key is unknown, a value has the wrong type.
    """
    reading = read_settings(config, flags)
    if reading.settings is None:
        raise config_invalid(reading.problems)
    return reading.settings


def read_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> SettingsReading:
    """As `load_settings`, but keeps who said what, and gives every problem instead of raising.

    Raises:
        ConfigInvalid: the file `config`, or the one that `AGENTCTX_CONFIG` names, does not exist.
    """
    file = _config_file(config)
    given, problems = read_sources(file, flags or {})
    settings, found = _validated(given, file)
    problems += found
    return SettingsReading(file, given, None if problems else settings, problems)


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


def find_config_file() -> Path | None:
    """The first of `paths.config_candidates()` that exists.

    Raises:
        ConfigInvalid: there is none that `AGENTCTX_CONFIG` names, or one may be where we cannot look.
    """
    if named := os.environ.get("AGENTCTX_CONFIG"):
        return _existing(Path(named), "Correct AGENTCTX_CONFIG, which names it, or unset it.")
    return next((path for path in config_candidates() if _is_file(path)), None)


def _config_file(named: Path | None) -> Path | None:
    return _existing(named, "Name an existing file with --config.") if named else find_config_file()


def _existing(file: Path, hint: str) -> Path:
    if not _is_file(file):
        raise ConfigInvalid(f"Config file {file} does not exist.", hint=hint)
    return file


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        # It may be there: continuing without it would run with unintended settings.
        raise ConfigInvalid(
            f"Cannot check for the config file {path}: {(error.strerror or str(error)).lower()}.",
            hint=f"Give this user access to {path.parent}, or pass another file with --config.",
        ) from error


def _validated(given: list[Given], file: Path | None) -> tuple[Settings | None, list[Problem]]:
    try:
        return Settings.model_validate(merged(given)), []
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
    text = _text_of(file)
    return None, [refused(each, given, file, text) for each in found]


def _text_of(file: Path | None) -> str:
    # One that cannot be read is a problem of its own; here it only gives the lines of the others.
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace") if file else ""
    return ""


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
