"""Loads settings; precedence: flags > environment > systemd credentials > file > defaults."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NestedSecretsSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from agentctx.config.bounded_files import read_bounded
from agentctx.config.origins import KeyPath, Origin, SourcedValue, flag_values, merge, origin_of, table_values
from agentctx.config.paths import config_candidates
from agentctx.config.problems import Problem, config_invalid, masked, problem_from_error, takes_json
from agentctx.config.schema import Settings
from agentctx.errors import ConfigInvalid

ENV_PREFIX = "AGENTCTX_"
NESTING = "__"
NON_SETTINGS = frozenset({"AGENTCTX_CONFIG", "AGENTCTX_NAMESPACE"})
"""Variables with our prefix that are not settings."""

SourceResult: TypeAlias = tuple[list[SourcedValue], list[Problem]]
"""The values of a source, and the problems found while reading it."""


@dataclass(frozen=True, slots=True)
class SettingsReading:
    """The result of reading all sources. `settings` is None if there are problems."""

    file: Path | None
    values: list[SourcedValue]
    settings: Settings | None
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting with its effective value as JSON; secrets are masked."""

    key: str
    value: Any
    origin: str
    changed: bool
    """Whether it differs from the default."""


def load_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Load and merge all sources.

    Args:
        config: the file to read; by default the one that `find_config_file` returns.
        flags: values that override all others, like `{"data_dir": …}`.

    Raises:
        ConfigInvalid: a file is missing or is not TOML, a key is unknown, or a value has the wrong type.
    """
    reading = read_settings(config, flags)
    if reading.settings is None:
        raise config_invalid(reading.problems)
    return reading.settings


def read_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> SettingsReading:
    """Like `load_settings`, but keep the origin of each value, and return all problems instead of raising.

    Raises:
        ConfigInvalid: the file `config`, or the one that `AGENTCTX_CONFIG` names, does not exist.
    """
    file = _existing(config, "Name an existing file with --config.") if config else find_config_file()
    values, problems = read_sources(file, flags or {})
    settings, found = _validated(values, file)
    problems += found
    return SettingsReading(file, values, None if problems else settings, problems)


def effective_values(settings: Settings, values: list[SourcedValue]) -> list[EffectiveSetting]:
    """Return every setting with its origin, in schema order; declared collections come last."""
    defaults = dict(_values(Settings()))
    return [
        EffectiveSetting(
            ".".join(path),
            value,
            str(origin_of(path, values)),
            path not in defaults or value != defaults[path],
        )
        for path, value in _values(settings)
    ]


def find_config_file() -> Path | None:
    """Return the first of `paths.config_candidates()` that exists, or None.

    Raises:
        ConfigInvalid: the file named by `AGENTCTX_CONFIG` does not exist, or a candidate is inaccessible.
    """
    if named := os.environ.get("AGENTCTX_CONFIG"):
        return _existing(Path(named), "Correct AGENTCTX_CONFIG, which names it, or unset it.")
    return next((path for path in config_candidates() if _is_file(path)), None)


def _existing(file: Path, hint: str) -> Path:
    if not _is_file(file):
        raise ConfigInvalid(f"Config file {file} does not exist.", hint=hint)
    return file


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        # The file may exist: continuing without it would run with unintended settings.
        raise ConfigInvalid(
            f"Cannot check for the config file {path}: {(error.strerror or str(error)).lower()}.",
            hint=f"Give this user access to {path.parent}, or pass another file with --config.",
        ) from error


def _validated(values: list[SourcedValue], file: Path | None) -> tuple[Settings | None, list[Problem]]:
    try:
        return Settings.model_validate(merge(values)), []
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
    text = _read_text(file)
    return None, [problem_from_error(each, values, file, text) for each in found]


def _read_text(file: Path | None) -> str:
    # An unreadable file is reported elsewhere; here its text only supplies the line numbers of problems.
    with suppress(OSError):
        return read_bounded(file).decode(errors="replace") if file else ""
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
            yield path, masked(value)


class _Sources(BaseSettings, Settings):
    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=NESTING,
        nested_model_default_partial_update=True,
        extra="forbid",
        frozen=True,
    )


def read_sources(file: Path | None, flags: Mapping[str, Any]) -> SourceResult:
    """Read all sources, lowest precedence first."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    read = [
        _file(file) if file else ([], []),
        _credentials(Path(folder)) if folder else ([], []),
        _environment(os.environ),
        (flag_values(flags), []),
    ]
    return [each for values, _ in read for each in values], [each for _, found in read for each in found]


def _file(path: Path) -> SourceResult:
    try:
        read_bounded(path)  # the source reads without a bound
        values = TomlConfigSettingsSource(_Sources, toml_file=path)()
    except tomllib.TOMLDecodeError as error:
        return [], [
            Problem(str(path), "", f"is not valid TOML: {error}", "See config/agentctx.toml for an example.")
        ]
    except OSError as error:
        return [], [Problem(str(path), "", f"cannot be read: {error.strerror}", "Check its permissions.")]
    except UnicodeDecodeError as error:
        return [], [Problem(str(path), "", f"is not UTF-8 (byte {error.start})", "Convert it to UTF-8.")]
    return table_values(values, Origin("file", str(path))), []


def _credentials(folder: Path) -> SourceResult:
    """Read systemd credentials: the file `agentctx_embedding__api_key` sets `embedding.api_key`."""
    prefix = ENV_PREFIX.lower()
    try:
        values = NestedSecretsSettingsSource(
            SecretsSettingsSource(_Sources, secrets_dir=folder),
            secrets_dir=folder,
            secrets_dir_missing="error",
            secrets_prefix=prefix,
            secrets_nested_delimiter=NESTING,
        )()
    except (SettingsError, OSError, UnicodeDecodeError) as error:
        source = f"credentials in {folder}"
        return [], [Problem(source, "", f"cannot be read: {error}", "Check LoadCredential in the unit.")]
    sourced = table_values(values, Origin("credential"))
    return [
        SourcedValue(each.path, each.value, Origin("credential", prefix + NESTING.join(each.path)))
        for each in sourced
    ], []


def _environment(env: Mapping[str, str]) -> SourceResult:
    """Read variables: `AGENTCTX_EMBEDDING__MODEL`, in any case, sets `embedding.model`; lists are JSON.

    An empty AGENTCTX_SOCKET or AGENTCTX_DATA_DIR counts as unset, as it does for clients.
    """
    names = {
        tuple(name[len(ENV_PREFIX) :].lower().split(NESTING)): name
        for name in env
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in NON_SETTINGS
    }
    unreadable = {path: problem for path in names if (problem := _json_problem(path, names[path], env))}
    source = EnvSettingsSource(_Sources)
    left_out = {names[path].lower() for path in unreadable}
    source.env_vars = {name: value for name, value in source.env_vars.items() if name not in left_out}
    values = [
        SourcedValue(each.path, each.value, Origin("env", _variable(each.path, names)))
        for each in table_values(source(), Origin("env"))
        if each.value or len(each.path) > 1
    ]
    # Those that pydantic-settings ignores, so that a typo does not go unnoticed.
    values += [
        SourcedValue(path, env[name], Origin("env", name))
        for path, name in names.items()
        if path[0] not in Settings.model_fields
    ]
    return values, list(unreadable.values())


def _json_problem(path: KeyPath, name: str, env: Mapping[str, str]) -> Problem | None:
    """Return the problem if a list or table is invalid JSON; pydantic-settings names only its section."""
    if takes_json(path):
        try:
            json.loads(env[name])
        except ValueError as error:
            message, hint = f"not valid JSON: {error}", 'Write lists as ["a", "b"].'
            return Problem(f"env {name}", ".".join(path), message, hint)
    return None


def _variable(path: KeyPath, names: Mapping[KeyPath, str]) -> str:
    """Return the variable that sets the value at a path: its own, or that of a table it is in."""
    for length in range(len(path), 0, -1):
        if path[:length] in names:
            return names[path[:length]]
    return ENV_PREFIX + NESTING.join(path).upper()
