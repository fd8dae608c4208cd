"""Is every vector from a model in use, and does every save make jobs for these models only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentctx.doctor.check import SCAN_S, Check, Finding, failed, passed
from agentctx.service.fingerprints import InForce, left_behind, wrong_models
from agentctx.storage.base import Storage
from agentctx.storage.proofs import SpaceVectors
from agentctx.wording import counted, listed

_AGAIN: Final = (
    "Restart the daemon: it compares again, and embeds again what is not from the configured model."
)


def fingerprint_check(storage: Storage, in_force: InForce | None) -> Check:
    """`in_force` is None where no daemon runs; the repair removes vectors that nothing searches any more."""

    async def run() -> Finding:
        return judge_fingerprints(await storage.proofs.vectors_by_space(), in_force)

    async def fix() -> str:
        removed = await storage.proofs.remove_left_vectors()
        return f"removed {counted(removed, 'vector')} from models no longer in use"

    return Check(id="embedding.fingerprints", run=run, fix=fix, timeout_s=SCAN_S)


def judge_fingerprints(found: Sequence[SpaceVectors], in_force: InForce | None) -> Finding:
    left = left_behind(found)
    mixed = [] if in_force is None else wrong_models(found, in_force)
    if not left and not mixed:
        kept = [each for each in found if each.vectors]
        vectors = sum(each.vectors for each in kept)
        if not vectors:
            return passed("there are no vectors")
        return passed(
            f"{counted(vectors, 'vector')} in {counted(len(kept), 'space')}, each from its own model"
        )
    if mixed:
        return failed(
            "stored vectors and the running models do not match: searches may compare incompatible vectors",
            detail=listed([*mixed, *left], separator="; "),
            hint=_AGAIN,
            fixable=bool(left),
        )
    return failed(
        "vectors are left from models no longer in use",
        detail=listed(left, separator="; "),
        hint="Run `agentctx doctor --fix`, which removes them; they are never searched.",
        fixable=True,
    )
