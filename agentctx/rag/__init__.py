"""Answering questions: retrieve, fuse, select, budget, render."""
