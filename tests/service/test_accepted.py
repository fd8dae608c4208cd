"""Whatever was accepted can be edited, exported and imported, whichever saves and edits made it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentctx.daemon.build import Core
from agentctx.errors import AgentctxError
from agentctx.wire import EditRequest, OutcomeRequest, SaveRequest
from agentctx_testing.drafts import ManualClock
from tests.amount import examples
from tests.moving import differences, exported
from tests.running_core import ME, running_core

HISTORIES = examples(40)
STEPS = 14
SECRET = "postgres://ann:hunter22@db/x"  # noqa: S105 - an example
"""Shorter than its mark, so that what holds it grows over its limit."""
TEXTS = ("it is so", "it is not", SECRET, "x" * 16_384, f"{SECRET} " * 560, "ends\twith\nlines ")
ERRORS = ("HTTP 404", "HTTP 500", "pid 17 exited with code 3", "pid 18 exited with code 3", f"at {SECRET}")
FIXES = (None, "restart it", "restart  it", "wait", SECRET)


async def _step(core: Core, random: Random, number: int) -> None:
    known = await exported(core)
    what = random.choice(("learning", "learning", "knowledge", "observation", "edit", "edit", "outcome"))
    if what in ("edit", "outcome") and known:
        entry = random.choice(known).entry
        if what == "edit":
            await core.entries.edit(entry.id, _edit(entry.collection, random, number), ME)
        elif entry.collection == "learning":
            await core.entries.outcome(entry.id, OutcomeRequest(success=random.random() < 0.5), ME)
    elif what in ("learning", "knowledge", "observation"):
        await core.entries.save([SaveRequest(collection=what, **_fields(what, random, number))], ME)


def _edit(collection: str, random: Random, number: int) -> EditRequest:
    fields = _fields(collection, random, number)
    names = [name for name in fields if name not in ("key", "session", "agent")]
    return EditRequest(**{name: fields[name] for name in random.sample(names, random.randint(1, len(names)))})


def _fields(collection: str, random: Random, number: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "tags": [f"{number}-{each}" for each in range(random.choice((0, 1, 32, 33)))],
        "cues": random.choice(
            (None, [f"what of {number}?", SECRET], [f"{number} {each}" for each in range(8)])
        ),
        "source": random.choice((None, "a.md", f"{SECRET}/" + "a" * 2_020)),
    }
    if collection == "learning":
        fields |= {
            "trigger": random.choice(("tool:x", "tool:y", f"tool {SECRET}")),
            "error_pattern": random.choice(ERRORS),
            "diagnosis": random.choice((None, *TEXTS)),
            "fix": random.choice(FIXES),
            "category": random.choice((None, "timeout")),
        }
    else:
        fields["content"] = random.choice(TEXTS)
    if collection == "knowledge":
        fields["key"] = random.choice(("a", "b", SECRET + "k" * 228))
    if collection == "observation":
        fields |= {
            "session": random.choice(("s", SECRET + "s" * 228)),
            "agent": random.choice((None, SECRET + "a" * 228)),
        }
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_what_was_accepted_can_be_edited_exported_and_imported(tmp_path: Path, seed: int) -> None:
    random, clock = Random(seed), ManualClock()
    async with running_core(tmp_path / "here", None, clock=clock) as core:
        for number in range(STEPS):
            clock.now += 1_000
            try:
                await _step(core, random, number)
            except AgentctxError:
                continue  # what is refused need not be kept
        for each in await exported(core):
            await core.entries.edit(each.entry.id, EditRequest(source="checked.md"), ME)
        assert await differences(core, tmp_path / "there", now=clock.now) == []
