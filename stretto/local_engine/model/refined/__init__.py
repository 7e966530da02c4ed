"""Models that write blocks of tokens at once: how each does it, and how its files are read.

Private: not part of the public API, and may change at any time.
"""
