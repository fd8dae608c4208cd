"""Compares the model of each space of vectors with the running models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from agentctx.embedding_queue.lanes import Lanes
from agentctx.storage.proofs import SpaceVectors
from agentctx.storage.records import SpaceState
from agentctx.wording import counted

InForce: TypeAlias = Mapping[int, Mapping[str, str | int]]
"""The fingerprint of each running model, by the space it fills."""


def models_in_force(lanes: Lanes | None) -> InForce:
    """Return the running models by the space that each fills; empty if nothing is embedded."""
    return {} if lanes is None else {lane.space: lane.fingerprint for lane in lanes}


def left_behind(found: Sequence[SpaceVectors]) -> list[str]:
    """Describe the vectors that should have been deleted with their space."""
    return [
        f"space {each.space} is {'not there' if each.state is None else 'retired'}, "
        f"{counted(each.vectors, 'vector')} of it"
        for each in found
        if each.vectors and each.state in {None, SpaceState.RETIRED}
    ]


def wrong_models(found: Sequence[SpaceVectors], in_force: InForce) -> list[str]:
    """Describe the spaces whose jobs or fingerprints do not match the running models."""
    known = {each.space: each for each in found}
    enabled = {each.space for each in found if each.enabled}
    unfilled = sorted(enabled - set(in_force))
    wrong = [f"space {space} gets jobs, but no model fills it" for space in unfilled]
    for space, fingerprint in sorted(in_force.items()):
        if space not in enabled:
            wrong.append(f"space {space} is filled by a model, but gets no jobs")
        elif dict(known[space].fingerprint) != dict(fingerprint):
            wrong.append(f"space {space} has the fingerprint of another model than the one that fills it")
    return wrong
