"""Lexical unit decoding: [PAD] rows, trained for it, predict the tokens after the next one.

Private: not part of the public API, and may change at any time.
"""
