"""The default provider: all-MiniLM-L6-v2 in process, without network or key.

The weights are data of installed packages (`weights`). Once, in a subprocess, a recipe (`quantize`) makes the
model that is run, and keeps it in the cache (`cache`). `python -m agentctx.embedding_providers.embedded`
does that ahead of time.
"""

from agentctx.embedding_providers.embedded.provider import EmbeddedProvider

__all__ = ["EmbeddedProvider"]
