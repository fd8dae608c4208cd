"""agentctx: one shared, durable memory for every agent process on a machine."""

__version__ = "0.1.0"
