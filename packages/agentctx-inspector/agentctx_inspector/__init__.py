"""The pages of `agentctx ui`: memories, receipts and health in a browser, over the daemon's API."""
