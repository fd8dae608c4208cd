"""The check that stored chunks find themselves."""

from __future__ import annotations

from agentctx.doctor.check import SCAN_S, Check, Finding, failed, passed, skipped
from agentctx.service.self_retrieval import SelfRetrieval, retrieve_canaries
from agentctx.storage.base import Storage
from agentctx.wording import counted, listed


def self_retrieval_check(storage: Storage) -> Check:
    """Asks no model: the vectors are those that are stored."""

    async def run() -> Finding:
        return judge_self_retrieval(await retrieve_canaries(storage))

    return Check(id="embedding.self_retrieval", run=run, timeout_s=SCAN_S)


def judge_self_retrieval(seen: SelfRetrieval) -> Finding:
    if not seen.words and not seen.vectors:
        return skipped("nothing is stored yet")
    summary = f"{counted(seen.words, 'chunk')} searched by keyword, {seen.vectors} by vector"
    if not seen.lost:
        return passed(f"all found: {summary}")
    return failed(
        f"stored, but not found: {len(seen.lost_words)} by keyword, {len(seen.lost_vectors)} by vector",
        detail=f"{summary}; entries {listed(dict.fromkeys([*seen.lost_words, *seen.lost_vectors]))}",
        hint="Run `agentctx doctor --fix`: the checks of the database repair the indexes.",
    )
