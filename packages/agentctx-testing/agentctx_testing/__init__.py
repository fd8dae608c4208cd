"""For tests of agentctx and of your own parts: a fake provider, and conformance suites."""
