"""Context in every LLM call: adapters around models, and the formats of their APIs.

`dialects` reads and rebuilds bodies, `injection` decides what goes where, `conversation` keeps earlier
blocks; none of them does I/O. `adapter` wraps a model with them.
"""
