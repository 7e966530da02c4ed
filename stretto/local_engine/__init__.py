"""A causal language model in this process.

Private: not part of the public API, and may change at any time.
"""
