"""Build hooks: add the embedded model and the commit, and make README.md readable on a package index."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

COMMIT = "agentctx/commit.txt"
IMPORTERS = "packages/agentctx-importers/agentctx_importers"
INSPECTOR = "packages/agentctx-inspector/agentctx_inspector"
BUILT = (
    "agentctx",
    IMPORTERS,
    INSPECTOR,
    "config",
    "migrations",
    "systemd",
    "pyproject.toml",
    "hatch_build.py",
)
"""What a wheel is built from; changes elsewhere do not matter to the program."""
LENGTH = 12


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the commit to wheel and source archive, and the model with its tokenizer to the wheel.

    An editable install builds the model in the user's cache instead, and reads the commit when it runs.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        self._work = tempfile.TemporaryDirectory(prefix="agentctx-build-")
        if version != "editable":
            self._add_commit(build_data)
            if self.target_name == "wheel":
                self._add_model(build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called by hatchling after it has built."""
        self._work.cleanup()

    def _add_commit(self, build_data: dict[str, Any]) -> None:
        if Path(self.root, COMMIT).is_file():  # a source archive has it, and its files are taken as they are
            return
        file = Path(self._work.name, "commit.txt")
        file.write_text(f"{commit_of(Path(self.root))}\n", encoding="utf-8")
        build_data["force_include"][str(file)] = COMMIT

    def _add_model(self, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from agentctx.config.paths import cache_dir
        from agentctx.embedding.providers.embedded.cache import ensure_built, find_built
        from agentctx.embedding.providers.embedded.weights import PACKAGED, TOKENIZER

        model = find_built(cache_dir()) or ensure_built(Path(self._work.name))
        folder = PACKAGED.relative_to(self.root)
        for source in (model, model.with_name("model.onnx.sha256"), TOKENIZER.verified()):
            build_data["force_include"][str(source)] = f"{folder}/{source.name}"


def commit_of(root: Path) -> str:
    """Return the commit that is checked out here, with a digest of what differs from it; else `unknown`."""
    if not (root / ".git").exists():  # a folder inside somebody else's repository
        return "unknown"
    try:
        head = _git(root, "rev-parse", "HEAD")[0]
        changed = {
            *_git(root, "diff", "--name-only", "-z", "HEAD", "--", *BUILT),
            *_git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *BUILT),
        }
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    digest = hashlib.sha256()
    for name in sorted(changed):
        file = root / name
        digest.update(b"%s\0%s\0" % (os.fsencode(name), file.read_bytes() if file.is_file() else b""))
    return head[:LENGTH] + (f"-dirty.{digest.hexdigest()[:8]}" if changed else "")


def _git(root: Path, *arguments: str) -> list[str]:
    """Return the words that git prints. The clone may be of another user, who builds with sudo."""
    # Set inside hooks of git, for the repository of the hook.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, check=True)  # noqa: S603 - our own words
    return [word for word in os.fsdecode(done.stdout).replace("\n", "\0").split("\0") if word]


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
