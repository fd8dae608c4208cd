"""Embedding providers over HTTP: one client, one provider class, one pure class per wire format.

texts → provider (prefixes, rate limits) → splitting → wire format → http → faults | wire format → vectors
"""
