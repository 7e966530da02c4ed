"""Compiled code of lexical unit decoding.

Private: not part of the public API, and may change at any time.
"""
