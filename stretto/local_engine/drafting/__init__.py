"""Drafters: guesses at what comes next, each from a source of its own."""
