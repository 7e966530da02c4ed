"""Loads a model and runs its forward: layers, and the key-value cache.

Private: not part of the public API, and may change at any time.
"""
