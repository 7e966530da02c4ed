"""Drafters: they guess the next tokens, and the engine verifies the guesses.

Private: not part of the public API, and may change at any time.
"""
