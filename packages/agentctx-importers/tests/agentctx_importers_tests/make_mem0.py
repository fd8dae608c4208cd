"""Makes `fixtures/mem0` with mem0ai 2.2.1 in an environment of its own: `python make_mem0.py FOLDER`.

The first memory is an element of what `agentctx export --to mem0` wrote.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["MEM0_TELEMETRY"] = "False"

from mem0 import Memory
from mem0.utils.factory import EmbedderFactory, LlmFactory


class _Embedder:
    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return [float(len(text)), 1.0, 0.0, 0.5]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(each) for each in texts]


def create(*_: Any) -> _Embedder:
    return _Embedder()


def main(folder: Path) -> None:
    os.environ["MEM0_DIR"] = str(folder / "mem0")
    EmbedderFactory.create = create
    LlmFactory.create = create
    config = {"path": str(folder / "qdrant"), "embedding_model_dims": 4, "on_disk": True}
    store = {"provider": "qdrant", "config": config}
    memory = Memory.from_config({"vector_store": store, "history_db_path": str(folder / "history.db")})
    for element in json.loads(Path(__file__).with_name("fixtures").joinpath("to_mem0.json").read_text()):
        memory.add(**element)
    labels = {"category": "preference", "topic": "health"}
    memory.add("Allergic to peanuts", user_id="ann", agent_id="planner", metadata=labels, infer=False)
    memory.add("Prefers trains", user_id="ann", run_id="trip-1", infer=False)
    (first,) = memory.add("Lives in Basle", user_id="ann", infer=False)["results"]
    memory.update(first["id"], "Lives in Basel")
    (gone,) = memory.add("Wrong", user_id="ann", infer=False)["results"]
    memory.delete(gone["id"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
