"""What the help says of each command: its section, what others call it, and examples. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Remember": {
        "save": "Save an entry; it is on disk when the command returns.",
        "ingest": "Read files and folders into the memory; unchanged files are not read again.",
        "edit": "Change the given fields of an entry.",
        "learning": "Record the outcome of a learning.",
        "forget": "Delete an entry, or all of a namespace, with all versions permanently.",
        "undo": "Forget entries created since a time, and restore the text and attributes that "
        "others had then.",
        "revoke": "Remove a source from every answer at once, together with everything derived "
        "from its entries.",
        "release": "Release an entry from quarantine, so that answers may contain it again.",
        "review": "Decide about each captured or imported entry that waits: keep, edit, merge or forget it.",
    },
    "Ask": {
        "search": "Find the closest passages by keyword and by meaning.",
        "context": "Print the context block that an LLM call would get, or nothing if no passage is "
        "relevant.",
        "why": "Show what was injected into an LLM call, what was omitted, and why.",
        "why-not": "Explain why an entry is currently not in the context for a question.",
        "get": "Show an entry in full.",
        "list": "List entries, newest first.",
        "history": "Show the versions of an entry, newest first.",
        "ui": "Open the memory in a browser: search, read, correct and forget it, with your own rights.",
        "namespaces": "List the namespaces that have entries, with how many, the largest first.",
        "wrap": "Run a program with its LLM calls routed through the proxy: OpenAI, Anthropic, "
        "Gemini, Ollama.",
    },
    "Connect": {
        "connect": "Give agents this memory: Claude Code, Codex, Gemini CLI, Copilot CLI, opencode, "
        "pi, Cursor, VS Code, …",
        "mcp": "Serve the memory to an agent as MCP tools over stdin and stdout.",
        "hook": "Answer an agent's hook: its JSON on stdin, context for the prompt on stdout, or nothing.",
    },
    "Operate": {
        "serve": "Run the daemon until SIGTERM or Ctrl-C.",
        "status": "Show the daemon's version, sizes, provider and queue.",
        "top": "Watch the daemon: saves, questions, queue, latencies, provider.",
        "doctor": "Check the whole installation, with the daemon up or down.",
        "queue": "The background queue that embeds what was saved.",
        "config": "Inspect the configuration; the daemon need not run.",
        "access": "Control who else may use the memory.",
        "service": "Have systemd, or launchd on macOS, run the daemon.",
        "reembed": "Embed everything with the model of [embedding.next] while the current one "
        "answers, and compare the two.",
        "demo": "Show every feature in a few seconds, with a daemon in a temporary folder.",
        "dev": "Tools for developing and testing.",
    },
    "Keep safe": {
        "backup": "Write a backup and verify every byte of it while saving continues.",
        "restore": "Check a backup and replace the database with it; the replaced database is kept.",
        "export": "Write entries as JSON Lines, from all namespaces and collections unless some are named.",
        "import": "Import a file written by `agentctx export`, or with --from the memory of another program.",
        "migrate": "Update the database to this program's schema.",
        "audit": "Inspect the audit trail: who saved, read, forgot and changed what.",
    },
}
"""By heading and command: the first sentence of its help, for the help of all, which imports no command."""
_PLACES: Final = {
    "save": "save:app",
    "learning": "save:outcomes",
    "forget": "entries:forget",
    "release": "revoke:release",
    "search": "ask:search",
    "context": "ask:context",
    "why-not": "why:why_not",
    "get": "entries:get",
    "list": "entries:list_entries",
    "history": "entries:history",
    "mcp": "agents:mcp",
    "hook": "agents:hook",
    "queue": "queue:app",
    "config": "config:app",
    "access": "access:app",
    "service": "service:app",
    "dev": "dev:app",
    "restore": "backup:restore",
    "import": "import_:import_memory",
    "audit": "audit:app",
}
COMMANDS: Final = {name: _PLACES.get(name, f"{name}:{name}") for names in SECTIONS.values() for name in names}
"""By command: a module below `agentctx.cli`, and its function or app; by default both are named after it."""
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
    "ui": "browser web dashboard inspect open",
    "grant": "add allow give share",
    "install": "start enable add",
}
"""By command or subcommand: what others call it."""
EXAMPLES: Final = (
    "agentctx serve",
    "agentctx serve --data-dir /srv/agentctx --socket /run/user/1000/agentctx.sock",
    'agentctx save knowledge --key deploy-window --category rule "Deploys happen on Tuesdays."',
    "cat notes.txt | agentctx save knowledge --key notes -",
    'agentctx save observation --session s1 "The staging database is slow."',
    'agentctx save reflection --session s1 "Slow databases precede failed deploys."',
    'agentctx save learning --trigger tool:psql --error-pattern "too many" --fix "Raise the limit."',
    "agentctx get deploy-window",
    "agentctx get deploy-window --version 1",
    "agentctx list --tag ops --since 7d",
    "agentctx list --all --waiting",
    "agentctx list --collection learning --agent planner",
    "agentctx edit deploy-window",
    'agentctx edit deploy-window --content "Deploys happen on Wednesdays."',
    "agentctx history deploy-window --diff",
    "agentctx forget deploy-window --dry-run",
    "agentctx forget deploy-window --yes",
    "agentctx forget --all --namespace user:ann",
    "agentctx forget --rewrite",
    "agentctx undo --since 10m --dry-run",
    "agentctx undo --since 2h --agent planner",
    "agentctx revoke --agent planner --dry-run",
    "agentctx revoke --session s1 --yes",
    "agentctx release deploy-window",
    "agentctx learning outcome LEARNING --success",
    "agentctx ingest ~/notes --dry-run",
    "agentctx ingest . --include '*.md' --wait",
    "agentctx search when do deploys happen",
    "agentctx search --tag ops --full deploys",
    "agentctx context when do deploys happen",
    "agentctx context --all --budget 500 deploys",
    "agentctx why",
    "agentctx why --last",
    'agentctx why-not deploy-window --query "When may I release?"',
    "agentctx wrap -- python my_agent.py",
    "agentctx ui --no-open",
    "agentctx connect --dry-run",
    "agentctx connect claude-code",
    "agentctx hook --help",
    "agentctx status",
    "agentctx status --json",
    "agentctx top",
    "agentctx top --once",
    "agentctx config show --changed",
    "agentctx config check",
    "agentctx config check --config /etc/agentctx/config.toml",
    "agentctx access grant alice team",
    'agentctx access grant --group agents "team-*" --read',
    "agentctx access grant prometheus --metrics",
    "sudo agentctx service uninstall --dry-run",
    "sudo agentctx service install --dry-run",
    "agentctx migrate --dry-run",
    "agentctx migrate --to postgresql://agentctx@db.example.org/agentctx",
    "agentctx reembed --status",
    "agentctx reembed --switch",
    "agentctx audit list --kind forget",
    "agentctx backup",
    "agentctx backup /mnt/backups/agentctx.db",
    "agentctx restore /mnt/backups/agentctx.db --dry-run",
    "agentctx export memories.jsonl",
    "agentctx export - --namespace team | gzip > team.jsonl.gz",
    "agentctx export notes --to markdown",
    "agentctx import memories.jsonl --dry-run",
    "agentctx import --from rules . --dry-run",
    "agentctx doctor",
    "agentctx doctor --json --strict",
)
"""Examples of the commands that need more than their name."""


def examples_of(path: str) -> list[str]:
    """Return the examples of a command, such as `queue status`; at least its name."""
    return [line for line in EXAMPLES if f"agentctx {path} " in f"{line} "] or [f"agentctx {path}"]


def suggested(word: str, commands: Collection[str]) -> list[str]:
    """Return the commands that go by this word elsewhere, else those that are spelt like it."""
    known = [name for name in commands if word.lower() in _SYNONYMS.get(name, "").split()]
    return known or ([] if word.startswith("-") else get_close_matches(word.lower(), commands))
