"""Weights in 4 to 8 bits: those of GGUF files, and others that are rounded while they are loaded.

Private: not part of the public API, and may change at any time.
"""
