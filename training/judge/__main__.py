"""Make the judge's weights: `python -m training.judge [--worlds FOLDER] [--out FOLDER]`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from agentctx.embedding.judge.judge import PAIR as JUDGE
from agentctx.embedding.providers.embedded.model import load_model
from agentctx.embedding.providers.embedded.weights import MODEL, TOKENIZER
from training.judge.base import WIDTH, read_weights
from training.judge.export import export
from training.judge.model import Judge, Lower, Reader
from training.judge.train import mean_of, train
from training.judge.worlds import Nearness, read_worlds

HELD_OUT = 5
"""One world in so many is not trained on: what the daemon makes of a score is fitted on those."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.judge", description=__doc__)
    here = Path(__file__).parent
    parser.add_argument(
        "--worlds", type=Path, default=here / "worlds", help="default: the worlds beside this file"
    )
    parser.add_argument("--out", type=Path, default=JUDGE.parent, help="default: where the daemon reads it")
    parser.add_argument("--passes", type=float, default=2.0)
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[7, 8, 9], help="one run each; their mean is kept"
    )
    parser.add_argument(
        "--fold", type=int, default=0, help=f"which of {HELD_OUT} parts of the worlds is held out"
    )
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    worlds = read_worlds(options.worlds)
    trained = [world for at, world in enumerate(worlds) if at % HELD_OUT != options.fold]
    weights = read_weights()
    reader, nearness = Reader(weights), Nearness(trained, Vectors())
    runs = [
        train(Judge(weights), trained, nearness, reader, passes=options.passes, seed=seed)
        for seed in options.seeds
    ]
    export(Lower(weights), mean_of(runs), options.out)


class Vectors:
    """The embedded model's vectors of texts, `(texts, WIDTH)`."""

    def __init__(self) -> None:
        self._model = load_model(MODEL.verified(), TOKENIZER.verified(), threads=1)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.concatenate([self._model.vector(text, WIDTH)[0] for text in texts])


if __name__ == "__main__":
    main()
