"""Strategies that the router never chooses, one folder each; see `docs/research.md`.

Nothing outside imports from here: `stretto.strategies` finds the ``STRATEGY`` of each folder by name. Deleting a folder
removes its strategy and breaks nothing else.

Private: not part of the public API, and may change at any time.
"""
