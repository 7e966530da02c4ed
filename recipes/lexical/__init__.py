"""The adapter for lexical units."""
