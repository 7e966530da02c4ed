"""Jacobi decoding and lookahead decoding: the model corrects a window of its own guesses, step by step."""
