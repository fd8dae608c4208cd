"""Build hooks: add the embedded model to the wheel, and make README.md readable on a package index."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ModelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the model and its tokenizer; an editable install builds the model in the user's cache instead."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from agentctx.config.paths import cache_dir
        from agentctx.embedding_providers.embedded.cache import ensure_built, find_built
        from agentctx.embedding_providers.embedded.weights import PACKAGED, TOKENIZER

        self._work = tempfile.TemporaryDirectory(prefix="agentctx-model-")
        model = find_built(cache_dir()) or ensure_built(Path(self._work.name))
        folder = PACKAGED.relative_to(self.root)
        for source in (model, model.with_name("model.onnx.sha256"), TOKENIZER.verified()):
            build_data["force_include"][str(source)] = f"{folder}/{source.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called by hatchling after it has built the wheel."""
        if version != "editable":
            self._work.cleanup()


class ReadmeHook(MetadataHookInterface):
    """Makes README.md the long description, without the links that would be broken on a package index."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": long_description(text)}


def long_description(readme: str) -> str:
    """Return the text with relative links as plain text, and without local images and comments."""
    text = re.sub(r"<!--.*?-->\n?", "", readme, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)", r"\1", text)
