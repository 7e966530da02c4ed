"""Decoding that is not left to right: a block of masked positions is refined until it is written.

Private: not part of the public API, and may change at any time.
"""
