"""What checks look at, with harmless defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentctx.config.embedding import EmbeddingSettings
from agentctx.config.schema import Settings
from agentctx.doctor.check import skipped
from agentctx.doctor.contexts import Contact, Embedding, Inner, Machine
from agentctx.times import wall_clock


def machine(**changes: Any) -> Machine:
    """An installation whose folder is unknown, on a machine without daemon, socket and agents."""
    fields: dict[str, Any] = {
        "config": None,
        "settings": Settings(),
        "data_dir": None,
        "socket": Path("/s"),
        "socket_mode": 0o600,
        "look_at_socket": lambda: None,
        "remove_stale_socket": lambda: "removed it",
        "contact": Contact(socket="/s"),
        "find_agents": lambda: None,
        "ask_bridge": lambda _: None,
    }
    return Machine(**{**fields, **changes})


def inner(**changes: Any) -> Inner:
    """A database that is not open, without embedding, while no daemon runs."""
    settings = changes.get("settings", Settings(embedding=EmbeddingSettings(provider="none")))
    fields: dict[str, Any] = {
        "settings": settings,
        "path": Path("/none/agentctx.db"),
        "opening": skipped("not there"),
        "opened": None,
        "embedding": Embedding(settings=settings.embedding, provider=None),
        "clock": wall_clock,
    }
    return Inner(**{**fields, **changes})
