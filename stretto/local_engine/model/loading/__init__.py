"""From a name to a model that runs: files, weights, memory, checks.

Private: not part of the public API, and may change at any time.
"""
