"""The judge: a small model that reads a prompt with a passage, and says whether the passage helps.

`text.onnx` and `pair.onnx` are its weights, made by `python -m training.judge`; the word embeddings are the
embedded model's. training/judge/README.md is the model's card.
"""
