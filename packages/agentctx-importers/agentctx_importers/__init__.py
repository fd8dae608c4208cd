"""Reads the memories of other programs for `agentctx import --from KIND`.

Each source is a module with a `MemorySource`, an entry point of the group `agentctx.importers`. It only
reads: `prepare` turns what it yields into the entries that the command saves.
"""
