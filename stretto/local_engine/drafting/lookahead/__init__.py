"""Jacobi decoding and lookahead decoding: the model corrects a window of guesses, step by step.

Private: not part of the public API, and may change at any time.
"""
