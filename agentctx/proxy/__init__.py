"""The transparent proxy: LLM calls pass through, with what agentctx knows put into them."""
