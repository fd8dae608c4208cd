"""Which commands there are."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.cli import (
    ask,
    audit,
    backup,
    config,
    demo,
    dev,
    doctor,
    edit,
    entries,
    export,
    history,
    import_,
    ingest,
    learning,
    migrate,
    queue,
    reembed,
    restore,
    revoke,
    save,
    serve,
    service,
    status,
    top,
    undo,
    why,
    why_not,
    wrap,
)
from agentctx.cli.root import create_root, run_app

app = create_root()

app.command()(serve.serve)
app.add_typer(save.app, name="save")
app.command()(entries.get)
app.command("list")(entries.list_entries)
app.command()(edit.edit)
app.command()(history.history)
app.command()(entries.forget)
app.command()(undo.undo)
app.command()(revoke.revoke)
app.command()(revoke.release)
app.add_typer(learning.app, name="learning")
app.command()(ingest.ingest)
app.command()(ask.search)
app.command()(ask.context)
app.command()(why.why)
app.command("why-not")(why_not.why_not)
app.command()(wrap.wrap)
app.command()(status.status)
app.add_typer(queue.app, name="queue")
app.command()(top.top)
app.add_typer(config.app, name="config")
app.add_typer(service.app, name="service")
app.command()(migrate.migrate)
app.command()(reembed.reembed)
app.add_typer(audit.app, name="audit")
app.command()(backup.backup)
app.command()(restore.restore)
app.command()(export.export)
app.command("import")(import_.import_entries)
app.command()(doctor.doctor)
app.command()(demo.demo)
app.add_typer(dev.app, name="dev")


def run(args: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return run_app(app, args)
