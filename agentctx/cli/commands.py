"""What the help says of each command: its section, what others call it, and examples. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Remember": {
        "save": "save.app",
        "ingest": "ingest.ingest",
        "edit": "edit.edit",
        "learning": "save.outcomes",
        "forget": "entries.forget",
        "undo": "undo.undo",
        "revoke": "revoke.revoke",
        "release": "revoke.release",
    },
    "Ask": {
        "search": "ask.search",
        "context": "ask.context",
        "why": "why.why",
        "why-not": "why.why_not",
        "get": "entries.get",
        "list": "entries.list_entries",
        "history": "entries.history",
        "namespaces": "namespaces.namespaces",
        "wrap": "wrap.wrap",
    },
    "Connect": {"connect": "connect.connect", "mcp": "agents.mcp", "hook": "agents.hook"},
    "Operate": {
        "serve": "serve.serve",
        "status": "status.status",
        "top": "top.top",
        "doctor": "doctor.doctor",
        "queue": "queue.app",
        "config": "config.app",
        "access": "access.app",
        "service": "service.app",
        "reembed": "reembed.reembed",
        "demo": "demo.demo",
        "dev": "dev.app",
    },
    "Keep safe": {
        "backup": "backup.backup",
        "restore": "backup.restore",
        "export": "export.export",
        "import": "import_.import_entries",
        "migrate": "migrate.migrate",
        "audit": "audit.app",
    },
}
"""By heading and command: a module below `agentctx.cli` and its function, or its app with subcommands."""
COMMANDS: Final = {name: target for commands in SECTIONS.values() for name, target in commands.items()}
"""The same without headings."""
_SYNONYMS: Final[Mapping[str, str]] = {
    "save": "add remember store put write note memorize memorise record create new",
    "forget": "delete del rm remove erase drop",
    "search": "find recall ask query lookup grep",
    "get": "show cat view read print",
    "list": "ls all",
    "edit": "update change modify set",
    "connect": "setup install disconnect link",
    "serve": "start run up daemon",
    "service": "stop restart enable disable",
    "status": "info health ps show",
    "grant": "add allow give share",
    "install": "start enable add",
}
"""By command or subcommand: what others call it."""
EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "serve": (
        "agentctx serve",
        "agentctx serve --data-dir /srv/agentctx --socket /run/user/1000/agentctx.sock",
    ),
    "save knowledge": (
        'agentctx save knowledge --key deploy-window --category rule "Deploys happen on Tuesdays."',
        "cat notes.txt | agentctx save knowledge --key notes -",
    ),
    "save observation": ('agentctx save observation --session s1 "The staging database is slow."',),
    "save reflection": ('agentctx save reflection --session s1 "Slow databases precede failed deploys."',),
    "save learning": (
        'agentctx save learning --trigger tool:psql --error-pattern "too many" --fix "Raise the limit."',
    ),
    "get": ("agentctx get deploy-window", "agentctx get deploy-window --version 1"),
    "list": ("agentctx list --tag ops --since 7d", "agentctx list --collection learning --agent planner"),
    "edit": (
        "agentctx edit deploy-window",
        'agentctx edit deploy-window --content "Deploys happen on Wednesdays."',
    ),
    "namespaces": ("agentctx namespaces",),
    "history": ("agentctx history deploy-window --diff",),
    "forget": (
        "agentctx forget deploy-window --dry-run",
        "agentctx forget deploy-window --yes",
        "agentctx forget --all --namespace user:ann",
        "agentctx forget --rewrite",
    ),
    "undo": ("agentctx undo --since 10m --dry-run", "agentctx undo --since 2h --agent planner"),
    "revoke": ("agentctx revoke --agent planner --dry-run", "agentctx revoke --session s1 --yes"),
    "release": ("agentctx release deploy-window",),
    "learning outcome": ("agentctx learning outcome LEARNING --success",),
    "ingest": ("agentctx ingest ~/notes --dry-run", "agentctx ingest . --include '*.md' --wait"),
    "search": ("agentctx search when do deploys happen", "agentctx search --tag ops --full deploys"),
    "context": (
        "agentctx context when do deploys happen",
        "agentctx context --all --budget 500 deploys",
    ),
    "why": ("agentctx why", "agentctx why --last"),
    "why-not": ('agentctx why-not deploy-window --query "When may I release?"',),
    "wrap": ("agentctx wrap -- python my_agent.py",),
    "connect": ("agentctx connect --dry-run", "agentctx connect claude-code"),
    "mcp": ("agentctx mcp",),
    "hook": ("agentctx hook --help",),
    "status": ("agentctx status", "agentctx status --json"),
    "queue status": ("agentctx queue status",),
    "queue retry": ("agentctx queue retry",),
    "queue drain": ("agentctx queue drain",),
    "top": ("agentctx top", "agentctx top --once"),
    "config init": ("agentctx config init",),
    "config show": ("agentctx config show --changed",),
    "config check": ("agentctx config check", "agentctx config check --config /etc/agentctx/config.toml"),
    "access grant": (
        "agentctx access grant alice team",
        'agentctx access grant --group agents "team-*" --read',
        "agentctx access grant prometheus --metrics",
    ),
    "access list": ("agentctx access list",),
    "service uninstall": ("sudo agentctx service uninstall --dry-run",),
    "service status": ("agentctx service status",),
    "service install": ("sudo agentctx service install --dry-run",),
    "migrate": (
        "agentctx migrate --dry-run",
        "agentctx migrate --to postgresql://agentctx@db.example.org/agentctx",
    ),
    "reembed": ("agentctx reembed --status", "agentctx reembed --switch"),
    "audit list": ("agentctx audit list --kind forget",),
    "audit verify": ("agentctx audit verify",),
    "backup": ("agentctx backup", "agentctx backup /mnt/backups/agentctx.db"),
    "restore": ("agentctx restore /mnt/backups/agentctx.db --dry-run",),
    "export": ("agentctx export memories.jsonl", "agentctx export - --namespace team | gzip > team.jsonl.gz"),
    "import": ("agentctx import memories.jsonl --dry-run",),
    "doctor": ("agentctx doctor", "agentctx doctor --json --strict"),
    "demo": ("agentctx demo",),
}
"""Examples by command, without the leading `agentctx`."""


def sections(commands: Collection[str]) -> dict[str, list[str]]:
    """Return these commands by heading."""
    by_heading = {
        heading: [name for name in names if name in commands] for heading, names in SECTIONS.items()
    }
    return {heading: names for heading, names in by_heading.items() if names}


def suggested(word: str, commands: Collection[str]) -> list[str]:
    """Return the commands that go by this word elsewhere, else those that are spelt like it."""
    known = [name for name in commands if word.lower() in _SYNONYMS.get(name, "").split()]
    return known or ([] if word.startswith("-") else get_close_matches(word.lower(), commands))
