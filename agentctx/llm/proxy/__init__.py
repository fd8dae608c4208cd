"""The transparent proxy: forwards LLM calls with context from agentctx injected."""
