"""Drafters: they guess the next tokens, and the engine verifies the guesses."""
