"""Is every vector of a model that is in force, and is every save owed to these models alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx.doctor.check import SCAN_S, Check, Finding, failed, passed
from agentctx.service.fingerprints import InForce, left_behind, wrong_models
from agentctx.storage.base import Storage
from agentctx.storage.proofs import SpaceVectors
from agentctx.wording import counted, listed

_AGAIN: Final = "Restart the daemon: it compares again, and embeds anew what is not of the configured model."


def fingerprint_check(storage: Storage, in_force: InForce | None) -> Check:
    """`in_force` is None where no daemon runs; the repair removes vectors that nothing searches any more."""

    async def run() -> Finding:
        return judge_fingerprints(await storage.proofs.vectors_by_space(), in_force)

    async def fix() -> str:
        removed = await storage.proofs.remove_left_vectors()
        return f"removed {counted(removed, 'vector')} of models that are no longer in force"

    return Check(id="embedding.fingerprints", run=run, fix=fix, timeout_s=SCAN_S)


def judge_fingerprints(found: Sequence[SpaceVectors], in_force: InForce | None) -> Finding:
    left = left_behind(found)
    mixed = [] if in_force is None else wrong_models(found, in_force)
    if not left and not mixed:
        kept = [each for each in found if each.vectors]
        vectors = sum(each.vectors for each in kept)
        if not vectors:
            return passed("there are no vectors")
        return passed(f"{counted(vectors, 'vector')} in {counted(len(kept), 'space')}, each of its own model")
    if mixed:
        return failed(
            "what is stored and the running models do not fit together: searches may compare unlike vectors",
            detail=listed([*mixed, *left], separator="; "),
            hint=_AGAIN,
            fixable=bool(left),
        )
    return failed(
        "vectors are left of models that are no longer in force",
        detail=listed(left, separator="; "),
        hint="Run `agentctx doctor --fix`, which removes them; nothing searches them.",
        fixable=True,
    )
