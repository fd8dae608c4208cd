"""Where settings come from: flags > environment > systemd credentials > file > defaults."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    NestedSecretsSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from agentctx.config.paths import config_candidates
from agentctx.config.schema import Settings
from agentctx.errors import ConfigInvalid

ENV_PREFIX = "AGENTCTX_"
_NOT_SETTINGS = frozenset({"AGENTCTX_CONFIG"})


def load_settings(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """All sources merged.

    Args:
        config: the file to read; without it the first of `paths.config_candidates()` that exists.
        flags: values that win over everything, like `{"data_dir": …}`.

    Raises:
        ConfigInvalid: a file is missing or no TOML, a key is unknown, a value has the wrong type.
    """
    path = _config_file(config)
    _refuse_unknown_environment()
    try:
        return _sources(path)(**{name: value for name, value in (flags or {}).items() if value is not None})
    except ValidationError as error:
        raise ConfigInvalid(_problems(error), hint=_where(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path} is no TOML: {error}") from None
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}") from error


def _config_file(named: Path | None) -> Path | None:
    if named is not None and not named.is_file():
        raise ConfigInvalid(f"there is no config file {named}", hint="Name an existing file with --config.")
    return named or next((path for path in config_candidates() if path.is_file()), None)


def _sources(path: Path | None) -> type[Settings]:
    class Sources(BaseSettings, Settings):
        model_config = SettingsConfigDict(
            env_prefix=ENV_PREFIX,
            env_nested_delimiter="__",
            nested_model_default_partial_update=True,
            extra="forbid",
            frozen=True,
        )

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            sources = [init_settings, env_settings]
            if folder := os.environ.get("CREDENTIALS_DIRECTORY"):
                sources.append(_credentials(file_secret_settings, folder))
            if path is not None:
                sources.append(TomlConfigSettingsSource(settings_cls, toml_file=path))
            return tuple(sources)

    return Sources


def _credentials(source: PydanticBaseSettingsSource, folder: str) -> PydanticBaseSettingsSource:
    """Credentials of systemd: the file `agentctx_embedding__api_key` is `embedding.api_key`."""
    return NestedSecretsSettingsSource(
        source, secrets_dir=folder, secrets_prefix=ENV_PREFIX.lower(), secrets_nested_delimiter="__"
    )


def _refuse_unknown_environment() -> None:
    """pydantic-settings passes over names it does not know; a typing mistake must not go unnoticed."""
    for name in os.environ:
        first = name.removeprefix(ENV_PREFIX).split("__")[0].lower()
        if name.startswith(ENV_PREFIX) and name not in _NOT_SETTINGS and first not in Settings.model_fields:
            hint = f"Known after {ENV_PREFIX} are {', '.join(Settings.model_fields)}."
            raise ConfigInvalid(f"the environment variable {name} sets nothing", hint=hint)


def _problems(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{_place(problem['loc'])}: {_plain(problem)}" for problem in found[:5])


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)


def _plain(problem: Any) -> str:
    return "is no setting" if problem["type"] == "extra_forbidden" else str(problem["msg"])


def _where(path: Path | None) -> str:
    return (
        f"Look into {path} and the {ENV_PREFIX}… environment variables; docs/configuration.md has every key."
    )
