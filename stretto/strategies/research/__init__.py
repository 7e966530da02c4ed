"""Strategies that no router chooses, a folder each; see `docs/research.md`.

Nothing outside imports from here: `stretto.strategies` finds the ``STRATEGY`` of each folder by name. A folder that is
deleted is missing, and nothing else.

Private: not part of the public API, and may change at any time.
"""
