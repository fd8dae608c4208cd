"""Programs started by agents: the MCP bridge and the hook handler. Standard library only, to start fast."""
