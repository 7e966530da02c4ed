"""Loads a model by name: files, weights, memory, checks.

Private: not part of the public API, and may change at any time.
"""
