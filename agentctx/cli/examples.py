"""Lines to copy, in the help of every command. Tests parse them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

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
    "history": ("agentctx history deploy-window --diff",),
    "forget": ("agentctx forget deploy-window --dry-run", "agentctx forget deploy-window --yes"),
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
    "config check": ("agentctx config check", "agentctx config check /etc/agentctx/config.toml"),
    "access grant": (
        "agentctx access grant alice team",
        'agentctx access grant --group agents "team-*" --read',
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
"""By the command without `agentctx`."""
