"""The Python client. Imports no server code, and httpx only when the first client is made."""

from agentctx.client.async_client import AsyncClient
from agentctx.client.sync_client import Client

__all__ = ["AsyncClient", "Client"]
