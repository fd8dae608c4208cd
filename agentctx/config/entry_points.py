"""Loads what a package beside the program offers as an entry point."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from agentctx import __version__
from agentctx.config.extras import install_hint_of_package
from agentctx.errors import AgentctxError


def load_offered(group: str, name: str, *, package: str, needed_by: str, refusal: type[AgentctxError]) -> Any:
    """Return what an installed package offers as an entry point.

    Raises:
        refusal: none offers it, or the package is incomplete or of another version than this program. The
            hint has the command that installs `package`, one of those in agentctx's source folder.
    """
    hint = install_hint_of_package(package)
    point = next(iter(metadata.entry_points(group=group, name=name)), None)
    if point is None:
        raise refusal(f"{needed_by} needs the package {package}.", hint=hint)
    if point.dist is not None and point.dist.version != __version__:
        unfit = f"The package {point.dist.name} {point.dist.version}"
        raise refusal(f"{unfit} is not for agentctx {__version__}.", hint=hint)
    try:
        return point.load()
    except ModuleNotFoundError as error:
        raise refusal(f"{needed_by} needs the package {error.name}.", hint=hint) from error
    except (AttributeError, ImportError) as error:
        raise refusal(
            f"{needed_by} needs {package}, which is incomplete here: {error}.", hint=hint
        ) from error
