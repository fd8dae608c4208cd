import sys
from textwrap import dedent

import pytest

import agentctx
from tests.fresh_python import modules_loaded_by


def test_importing_the_clients_loads_no_server_code() -> None:
    loaded = modules_loaded_by("from agentctx import AsyncClient, Client")

    assert {name for name in loaded if name.startswith("agentctx.") and name.count(".") == 1} == {
        "agentctx.client",
        "agentctx.config",
        "agentctx.errors",
        "agentctx.plain_values",
        "agentctx.wire",
    }


def test_the_clients_need_no_package_but_httptools() -> None:
    script = """
        import asyncio
        from agentctx import AsyncClient, Client
        from agentctx.errors import DaemonUnreachable
        with Client("/none", start_timeout_s=0) as client:
            assert not client.alive()
            try:
                client.search("when?", limit=3)
            except DaemonUnreachable:
                asyncio.run(AsyncClient("/none").alive())
    """
    before = modules_loaded_by("pass")
    loaded = {name.partition(".")[0] for name in modules_loaded_by(dedent(script)) - before}
    of_httptools = {name for name in loaded if "cython" in name}
    assert loaded - of_httptools - set(sys.stdlib_module_names) == {"agentctx", "httptools"}


def test_the_blocking_client_loads_few_modules() -> None:
    assert len(modules_loaded_by("import agentctx; agentctx.Client('/none')")) < 200


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


def test_every_name_of_the_wire_package_exists() -> None:
    from agentctx import wire
    from agentctx.wire import SaveRequest, entries

    assert all(getattr(wire, name) is not None for name in dir(wire))
    assert {"SaveRequest", "StatusReply", "DEFAULT_NAMESPACE"} <= set(dir(wire))
    assert SaveRequest is entries.SaveRequest
    with pytest.raises(AttributeError, match="nothing"):
        _ = wire.nothing
