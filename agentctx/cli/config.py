"""`agentctx config …`: show, check and create the daemon's configuration. Needs no running daemon."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctx.cli.layout import GAP, one_line, width
from agentctx.cli.options import AsJson, ConfigFile, DataDir
from agentctx.cli.output import line_width, paint, show, table
from agentctx.errors import Conflict

if TYPE_CHECKING:
    from agentctx.config.load import EffectiveSetting
    from agentctx.config.problems import Problem
    from agentctx.config.schema import Settings


app = typer.Typer(no_args_is_help=True, help="Inspect the configuration; the daemon need not run.")

_MIN_VALUE_WIDTH = 16


@dataclass(frozen=True, slots=True)
class ConfigReport:
    """All settings, and the file they were read from, if any."""

    file: str | None
    settings: list[EffectiveSetting]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The problems of a config file. `ok`: a daemon could start with it."""

    ok: bool
    file: str | None
    problems: list[Problem]


@app.command("show")
def show_settings(
    ctx: typer.Context,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only settings that differ from the defaults.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting with its origin: default, file, credential, env or flag. Secrets are masked."""
    from agentctx.config.load import effective_values, load_settings, read_settings

    flags = {"data_dir": data_dir, "socket": ctx.obj}
    reading = read_settings(config, flags)
    settings = reading.settings or load_settings(config, flags)
    values = [_resolved(each) for each in effective_values(settings, reading.values)]
    shown = [each for each in values if each.changed or not changed]
    report = ConfigReport(str(reading.file) if reading.file else None, shown)
    read = f"read from {report.file}" if report.file else "no config file: defaults and environment"
    note = read if shown else f"{read}; all settings have their defaults"
    show(report, setting_lines(shown, line_width()), as_json, note)


@app.command()
def check(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check a config file and the environment; report each problem, its location and the remedy."""
    from agentctx.config.load import read_settings

    reading = read_settings(config)
    name = str(reading.file) if reading.file else None
    problems = [
        *reading.problems,
        *_problems_outside(reading.settings, name or "environment"),
        *_problems_of_network(reading.settings),
    ]
    lines = problem_lines(problems) or [f"ok  {name or 'no config file: defaults and environment'}"]
    show(CheckReport(not problems, name, problems), lines, as_json)
    if problems:
        raise typer.Exit(1)


@app.command()
def init(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="File to write. Default: the config file of this user."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a config file with every setting commented out; an existing file is kept."""
    from agentctx.config.paths import config_candidates

    target = (config or config_candidates()[0]).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Written under another name first: an interrupted command must not leave half a config file.
    partial = target.with_name(f"{target.name}.partial")
    partial.write_text(commented_out(shipped_config()), encoding="utf-8")
    try:
        # The service reads the file in /etc as its own user.
        partial.chmod(0o644 if target.is_relative_to("/etc") else 0o600)
        os.link(partial, target)
    except FileExistsError:
        raise Conflict(
            f"{target} already exists; it was kept.", hint=f"Edit it, or remove it: {target}"
        ) from None
    finally:
        partial.unlink()
    show({"file": str(target)}, [f"wrote  {target}"], as_json)


def _problems_outside(settings: Settings | None, source: str) -> list[Problem]:
    """Return the problems of what the settings name: the file of redaction rules, and the socket's group."""
    from agentctx.config.problems import Problem
    from agentctx.daemon.host.listen import group_problem
    from agentctx.errors import ConfigInvalid
    from agentctx.text.redaction.redactor import create_redactor

    problems: list[Problem] = []
    if settings is None:
        return problems
    if unknown := group_problem(settings.server.socket_group):
        problems.append(Problem(source, "server.socket_group", unknown.message, unknown.hint))
    try:
        create_redactor(settings.redaction)
    except ConfigInvalid as error:
        rules = str(settings.redaction.rules_file or "redaction")
        problems.append(Problem(rules, "redaction", error.message, error.hint))
    return problems


def _problems_of_network(settings: Settings | None) -> list[Problem]:
    """Return what this shell's environment stops; that of a service may differ, and `doctor` looks at it."""
    from agentctx.config.problems import Problem
    from agentctx.doctor.running import network_problems

    stopped = {} if settings is None else network_problems(settings)
    return [Problem("environment", key, error.message, error.hint) for key, error in stopped.items()]


def setting_lines(settings: list[EffectiveSetting], limit: int | None) -> list[str]:
    """Return aligned lines of key, value as JSON, and origin. Only values are cut to fit `limit` columns."""
    if not settings:
        return []
    taken = max(width(each.key) for each in settings) + max(width(each.origin) for each in settings)
    room = None if limit is None else max(_MIN_VALUE_WIDTH, limit - taken - 2 * len(GAP))
    values = [json.dumps(each.value, ensure_ascii=False) for each in settings]
    rows = [
        (each.key, one_line(value, room), each.origin) for each, value in zip(settings, values, strict=True)
    ]
    header, *lines = table(("SETTING", "VALUE", "ORIGIN"), rows, None)
    bold = [paint(line, "bold") if each.changed else line for line, each in zip(lines, settings, strict=True)]
    return [header, *bold]


def problem_lines(problems: list[Problem]) -> list[str]:
    """Return for each problem a line with place, setting and message, then its hint, if it has one."""
    lines: list[str] = []
    for problem in problems:
        about = f"{problem.key}: " if problem.key else ""
        lines.append(one_line(f"{problem.place}: {about}{problem.message}", None))
        if problem.hint:
            lines.append("    " + one_line(problem.hint, None))
    return lines


def _resolved(setting: EffectiveSetting) -> EffectiveSetting:
    """Fill in the default of a path setting that has no value."""
    from agentctx.config.paths import default_data_dir, default_socket

    defaults = {"data_dir": default_data_dir, "socket": default_socket}
    if setting.value is None and setting.key in defaults:
        return replace(setting, value=str(defaults[setting.key]()))
    return setting


def commented_out(text: str) -> str:
    """Return the text with every setting commented out."""
    return "".join(
        line if not line.strip() or line.startswith(("#", "[")) else f"# {line}"
        for line in text.splitlines(keepends=True)
    )


def shipped_config() -> str:
    """Return the config file shipped with agentctx, from the wheel or the clone.

    Raises:
        OSError: the file is missing.
    """
    packaged = files("agentctx") / "agentctx.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "config" / "agentctx.toml").read_text(encoding="utf-8")
