"""One forward: loading a model, its layers, its key-value cache.

Private: not part of the public API, and may change at any time.
"""
