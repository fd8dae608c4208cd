"""Builds multilingual-e5-small from its 4-bit weights."""

from __future__ import annotations

from pathlib import Path

from agentctx.embedding.providers.embedded.multilingual.graph import write_graph
from agentctx.embedding.providers.embedded.multilingual.pieces import PIECES_NAME, write_pieces
from agentctx.embedding.providers.embedded.multilingual.weights_file import WeightsFile
from agentctx.embedding.providers.embedded.weights import E5


def build_multilingual(target: Path) -> None:
    """Write the graph to `target`, and word table and tokenizer beside it.

    Raises:
        ProviderFailed: the source weights are missing or not the pinned ones (stop).
    """
    weights = WeightsFile(E5.verified())
    write_pieces(weights, target.with_name(PIECES_NAME))
    write_graph(weights, target)
