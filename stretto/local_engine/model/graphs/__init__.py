"""Records steps as CUDA graphs.

Private: not part of the public API, and may change at any time.
"""
