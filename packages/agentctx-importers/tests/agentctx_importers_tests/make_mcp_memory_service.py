"""Makes a database with mcp-memory-service 12.4.0, of which `fixtures` has the table `memories`.

`MCP_MEMORY_ALLOW_HASH_EMBEDDINGS=1 python make_mcp_memory_service.py FILE`
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash

MEMORIES: tuple[tuple[str, list[str], str, dict[str, Any]], ...] = (
    ("The deploy key is rotated every ninety days.", ["security", "agent:planner"], "decision", {}),
    ("Staging listens on port 8081.", ["ops"], "note", {"agent": "coder"}),
    ("Wrong.", [], "note", {}),
)


async def main(file: str) -> None:
    storage = SqliteVecMemoryStorage(file)
    await storage.initialize()
    for text, tags, kind, metadata in MEMORIES:
        digest = generate_content_hash(text)
        memory = Memory(content=text, content_hash=digest, tags=tags, memory_type=kind, metadata=metadata)
        await storage.store(memory)
    await storage.delete(generate_content_hash("Wrong."))
    await storage.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
