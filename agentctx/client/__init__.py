"""The Python client: `sync_client`, `async_client`, and SDK clients bound to the proxy (`sdk`).

Imports no server code. The package imports nothing, so that `sync_client` comes without asyncio.
"""
