"""Checks that the configuration loads, and that other users cannot read its secrets."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr

from agentctx.config.origins import KeyPath
from agentctx.config.paths import config_candidates
from agentctx.config.schema import Settings
from agentctx.doctor.check import Check, Finding, blocking, failed, passed, skipped, warned
from agentctx.errors import AgentctxError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFacts:
    """The result of loading the settings; `problem` is None if they loaded."""

    file: Path | None
    """The config file, named or found; None if there is none."""
    looked_at: Sequence[Path]
    problem: AgentctxError | None


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """Whether the config file contains a key, and the file's mode."""

    has_key: bool
    mode: int


def facts_of(named: Path | None, problem: AgentctxError | None) -> ConfigFacts:
    candidates = [named] if named else config_candidates()
    return ConfigFacts(file=_first_of(candidates), looked_at=candidates, problem=problem)


def _first_of(candidates: Sequence[Path]) -> Path | None:
    # A file that cannot be examined is reported by the loading.
    with suppress(OSError):
        return next((path for path in candidates if path.is_file()), None)
    return None


def config_checks(facts: ConfigFacts) -> list[Check]:
    return [
        Check(id="config.loads", run=blocking(lambda: judge_loading(facts))),
        Check(id="config.secrets", run=blocking(lambda: _check_secrets(facts.file))),
    ]


def judge_loading(facts: ConfigFacts) -> Finding:
    if facts.problem is not None:
        return failed(
            facts.problem.message,
            hint=facts.problem.hint or "Correct it; docs/configuration.md lists every key.",
        )
    if facts.file is not None:
        return passed(f"{facts.file} loads")
    return passed(
        "defaults and environment; no config file",
        detail=f"looked for {', '.join(map(str, facts.looked_at))}",
    )


def _check_secrets(file: Path | None) -> Finding:
    if file is None:
        return skipped("no config file")
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return skipped(f"{file} cannot be read as TOML")
    return judge_secrets(file, SecretFacts(_has_key(values), stat.S_IMODE(file.stat().st_mode)))


def _has_key(values: Mapping[str, Any]) -> bool:
    return any(_value_at(values, path) for path in secret_paths(Settings))


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


def judge_secrets(file: Path, facts: SecretFacts) -> Finding:
    if not facts.has_key:
        return passed("the config file contains no key")
    if not facts.mode & 0o077:
        return passed("the key in the config file is readable only by its owner")
    return warned(
        f"{file} contains a key and has mode {facts.mode:04o}: other users can read it",
        hint=f"Run `chmod 600 {file}`, or pass the key as a systemd credential or in the environment.",
    )
