"""One model over several processes, each with a part of its weights or of its key-value cache.

Private: not part of the public API, and may change at any time.
"""
