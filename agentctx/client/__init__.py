"""The Python client: `sync_client`, `async_client`, and vendor SDK clients bound to the proxy (`sdk`).

It imports no server code. This file imports nothing, so that `sync_client` does not load asyncio.
"""
