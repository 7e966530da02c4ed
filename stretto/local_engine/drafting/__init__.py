"""Drafters, which guess the next tokens; the engine verifies the guesses.

Private: not part of the public API, and may change at any time.
"""
