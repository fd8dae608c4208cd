"""What other processes start: the MCP bridge, hooks, and `agentctx connect`."""
