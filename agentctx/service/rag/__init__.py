"""Answering questions: retrieve, fuse, select, fit the budget, render."""
