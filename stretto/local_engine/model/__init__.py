"""The model of one forward: loading, layers, and the key-value cache.

Private: not part of the public API, and may change at any time.
"""
