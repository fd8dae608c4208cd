"""Context in every LLM call: adapters around models, and the formats of their APIs.

`dialects` reads and rebuilds bodies, `injection` decides what goes where, `conversation` keeps the blocks
given before; none of them does I/O. `adapter` puts them around a model, `http` and `function` are models.
"""
