import subprocess
import sys

import pytest

import agentctx

FORBIDDEN = (
    "pydantic",
    "fastapi",
    "starlette",
    "uvicorn",
    "numpy",
    "aiosqlite",
    "structlog",
    "httpx",
    "typer",
)


def modules_after(code: str) -> set[str]:
    """Names of the modules a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint(*sys.modules, sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_client_brings_neither_server_code_nor_heavy_packages() -> None:
    loaded = modules_after("import agentctx.client; from agentctx import AsyncClient, Client")

    assert not {name for name in loaded if name.split(".")[0] in FORBIDDEN}
    assert {name for name in loaded if name.startswith("agentctx.") and name.count(".") == 1} == {
        "agentctx.client",
        "agentctx.config",
        "agentctx.errors",
        "agentctx.wire",
    }


def test_httpx_comes_with_the_first_client() -> None:
    assert "httpx" in modules_after("import agentctx; agentctx.Client('/none')")


def test_importing_the_package_loads_nothing_of_it() -> None:
    assert not {name for name in modules_after("import agentctx") if name.startswith("agentctx.")}


def test_the_public_names_are_those_listed() -> None:
    from agentctx.client import AsyncClient, Client

    assert agentctx.AsyncClient is AsyncClient
    assert agentctx.Client is Client
    assert set(agentctx.__all__) <= set(dir(agentctx))
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = agentctx.Nope
