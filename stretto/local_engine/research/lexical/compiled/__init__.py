"""Compiled code of the suffix automaton.

Private: not part of the public API, and may change at any time.
"""
