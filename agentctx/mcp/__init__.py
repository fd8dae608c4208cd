"""Programs that agents start: the MCP bridge and the hook handler. Standard library only, to start fast."""
