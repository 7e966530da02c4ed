"""File formats: GGUF, quantised folders, differences of weights.

Private: not part of the public API, and may change at any time.
"""
