"""What agents start: the MCP bridge and the hook handler. Standard library only, so both start at once."""
