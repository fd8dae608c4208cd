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
    "rich",
    "prometheus_client",
)


def modules_loaded_by(code: str) -> set[str]:
    """Return the names of all modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint(*sys.modules, sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_clients_loads_no_server_code_or_heavy_packages() -> None:
    loaded = modules_loaded_by("from agentctx import AsyncClient, Client")

    assert not {name for name in loaded if name.split(".")[0] in FORBIDDEN}
    assert {name for name in loaded if name.startswith("agentctx.") and name.count(".") == 1} == {
        "agentctx.client",
        "agentctx.config",
        "agentctx.errors",
        "agentctx.plain_values",
        "agentctx.wire",
    }


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_creating_a_client_loads_nothing_heavy(kind: str) -> None:
    loaded = modules_loaded_by(f"import agentctx; agentctx.{kind}('/none')")

    assert not {name for name in loaded if name.split(".")[0] in FORBIDDEN}


def test_the_blocking_client_needs_no_event_loop() -> None:
    loaded = modules_loaded_by("import agentctx; agentctx.Client('/none')")

    # Each of these takes longer to load than the client itself.
    assert not loaded & {"asyncio", "ssl", "http.client", "email", "logging", "subprocess"}
    assert len(loaded) < 200


def test_importing_the_package_loads_none_of_its_modules() -> None:
    assert not {name for name in modules_loaded_by("import agentctx") if name.startswith("agentctx.")}


def test_the_public_names_are_the_listed_ones() -> None:
    from agentctx.client.async_client import AsyncClient
    from agentctx.client.sync_client import Client

    assert agentctx.AsyncClient is AsyncClient
    assert agentctx.Client is Client
    assert set(agentctx.__all__) <= set(dir(agentctx))
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = agentctx.Nope


def test_wire_modules_are_loaded_only_when_needed() -> None:
    loaded = modules_loaded_by("import agentctx; agentctx.Client('/none')")
    assert not loaded & {f"agentctx.wire.{name}" for name in ("entries", "operations", "questions", "doctor")}


def test_every_name_of_the_wire_package_exists() -> None:
    from agentctx import wire
    from agentctx.wire import SaveRequest, entries

    assert all(getattr(wire, name) is not None for name in dir(wire))
    assert {"SaveRequest", "StatusReply", "DEFAULT_NAMESPACE"} <= set(dir(wire))
    assert SaveRequest is entries.SaveRequest
    with pytest.raises(AttributeError, match="nothing"):
        _ = wire.nothing
