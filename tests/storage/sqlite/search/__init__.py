"""Tests of finding chunks."""
