"""What each source says about the settings, read by pydantic-settings; every value keeps its origin."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NestedSecretsSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from agentctx.config.origins import Given, KeyPath, Origin, given_by_flags, given_by_table
from agentctx.config.problems import Problem, takes_json
from agentctx.config.schema import Settings

ENV_PREFIX = "AGENTCTX_"
NESTING = "__"
NOT_SETTINGS = frozenset({"AGENTCTX_CONFIG"})
"""Variables with our prefix that name no setting."""

Read: TypeAlias = tuple[list[Given], list[Problem]]
"""What a source gives, and what of it could not be read."""


class _Sources(BaseSettings, Settings):
    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=NESTING,
        nested_model_default_partial_update=True,
        extra="forbid",
        frozen=True,
    )


def read_sources(file: Path | None, flags: Mapping[str, Any]) -> Read:
    """All sources, the weakest first."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    read = [
        _file(file) if file else ([], []),
        _credentials(Path(folder)) if folder else ([], []),
        _environment(os.environ),
        (given_by_flags(flags), []),
    ]
    return [each for given, _ in read for each in given], [each for _, found in read for each in found]


def _file(path: Path) -> Read:
    try:
        values = TomlConfigSettingsSource(_Sources, toml_file=path)()
    except tomllib.TOMLDecodeError as error:
        return [], [
            Problem(str(path), "", f"is not valid TOML: {error}", "See config/agentctx.toml for an example.")
        ]
    except OSError as error:
        return [], [Problem(str(path), "", f"cannot be read: {error.strerror}", "Check its permissions.")]
    except UnicodeDecodeError as error:
        return [], [Problem(str(path), "", f"is not UTF-8 (byte {error.start})", "Convert it to UTF-8.")]
    return given_by_table(values, Origin("file", str(path))), []


def _credentials(folder: Path) -> Read:
    """Credentials of systemd: the file `agentctx_embedding__api_key` is `embedding.api_key`."""
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
        place = f"credentials in {folder}"
        return [], [Problem(place, "", f"cannot be read: {error}", "Check LoadCredential in the unit.")]
    given = given_by_table(values, Origin("credential"))
    return [Given(each.path, each.value, _credential(each.path)) for each in given], []


def _credential(path: KeyPath) -> Origin:
    return Origin("credential", ENV_PREFIX.lower() + NESTING.join(path))


def _environment(env: Mapping[str, str]) -> Read:
    """`AGENTCTX_EMBEDDING__MODEL` is `embedding.model`, in upper or lower case; lists and tables are JSON.

    An empty AGENTCTX_SOCKET or AGENTCTX_DATA_DIR counts as not set, as it does for clients.
    """
    names = {_path_of(name): name for name in env if _is_ours(name)}
    unreadable = {path: problem for path in names if (problem := _unreadable(path, names[path], env))}
    source = EnvSettingsSource(_Sources)
    left_out = {names[path].lower() for path in unreadable}
    source.env_vars = {name: value for name, value in source.env_vars.items() if name not in left_out}
    given = [
        Given(each.path, each.value, Origin("env", _variable(each.path, names)))
        for each in given_by_table(source(), Origin("env"))
        if each.value or len(each.path) > 1
    ]
    return [*given, *_unknown(names, env)], list(unreadable.values())


def _unreadable(path: KeyPath, name: str, env: Mapping[str, str]) -> Problem | None:
    """A list or a table that is not valid JSON. pydantic-settings would stop, and name the section only."""
    if takes_json(path):
        try:
            json.loads(env[name])
        except ValueError as error:
            message, hint = f"not valid JSON: {error}", 'Write lists as ["a", "b"].'
            return Problem(f"env {name}", ".".join(path), message, hint)
    return None


def _unknown(names: Mapping[KeyPath, str], env: Mapping[str, str]) -> Iterator[Given]:
    """Variables that pydantic-settings passes over: a typing mistake must not go unnoticed."""
    for path, name in names.items():
        if path[0] not in Settings.model_fields:
            yield Given(path, env[name], Origin("env", name))


def _variable(path: KeyPath, names: Mapping[KeyPath, str]) -> str:
    """The variable that sets the value at a path: its own, or the one of the table it is in."""
    for length in range(len(path), 0, -1):
        if path[:length] in names:
            return names[path[:length]]
    return ENV_PREFIX + NESTING.join(path).upper()


def _is_ours(name: str) -> bool:
    return name.upper().startswith(ENV_PREFIX) and name.upper() not in NOT_SETTINGS


def _path_of(name: str) -> KeyPath:
    return tuple(name[len(ENV_PREFIX) :].lower().split(NESTING))
