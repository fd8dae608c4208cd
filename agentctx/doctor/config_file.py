"""Checks that the configuration loads, and that other users cannot read its secrets."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, SecretStr

from agentctx.config.bounded_files import read_bounded
from agentctx.config.origins import KeyPath
from agentctx.config.paths import config_candidates
from agentctx.config.schema import Settings
from agentctx.doctor.check import Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Machine


@check(Machine, "config.loads")
def check_loading(machine: Machine) -> Finding:
    if (problem := machine.config_problem) is not None:
        hint = problem.hint or "Correct it; docs/configuration.md lists every key."
        return failed(problem.message, hint=hint)
    if file := _config_file(machine):
        return passed(f"{file} loads")
    detail = f"looked for {', '.join(map(str, _candidates(machine)))}"
    return passed("defaults and environment; no config file", detail=detail)


def _candidates(machine: Machine) -> list[Path]:
    return [machine.config] if machine.config else config_candidates()


def _config_file(machine: Machine) -> Path | None:
    with suppress(OSError):  # a file that cannot be examined is reported by the loading
        return next((path for path in _candidates(machine) if path.is_file()), None)
    return None


@check(Machine, "config.secrets")
def check_secrets(machine: Machine) -> Finding:
    file = _config_file(machine)
    if file is None:
        return skipped("no config file")
    try:
        values = tomllib.loads(read_bounded(file).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return skipped(f"{file} cannot be read as TOML")
    if not any(_value_at(values, path) for path in secret_paths(Settings)):
        return passed("the config file contains no key")
    mode = stat.S_IMODE(file.stat().st_mode)
    if not mode & 0o077:
        return passed("the key in the config file is readable only by its owner")
    return warned(
        f"{file} contains a key and has mode {mode:04o}: other users can read it",
        hint=f"Run `chmod 600 {file}`, or pass the key as a systemd credential or in the environment.",
    )


def secret_paths(section: type[BaseModel]) -> Iterator[KeyPath]:
    """Yield the paths of the settings in a section and its subsections that hold a key or token."""
    for name, field in section.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield from ((name, *path) for path in secret_paths(type(field.default)))
        elif SecretStr in (field.annotation, *get_args(field.annotation)):
            yield (name,)


def _value_at(values: object, path: KeyPath) -> object:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values
