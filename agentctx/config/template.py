"""The config file that `agentctx config init` writes: every setting with its default, commented out."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def commented_out(text: str) -> str:
    """The text with every setting as a comment: it changes nothing until a line is uncommented."""
    return "".join(
        line if not line.strip() or line.startswith(("#", "[")) else f"# {line}"
        for line in text.splitlines(keepends=True)
    )


def shipped_config() -> str:
    """The config file that comes with agentctx, in a wheel or in a clone.

    Raises:
        OSError: it is not there.
    """
    packaged = files("agentctx") / "agentctx.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "config" / "agentctx.toml").read_text(encoding="utf-8")
