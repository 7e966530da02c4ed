"""Compiled code of the suffix automaton."""
