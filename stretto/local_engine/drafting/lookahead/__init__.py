"""Jacobi decoding and lookahead decoding: the model corrects a window of guesses, step by step."""
