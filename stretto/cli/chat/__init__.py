"""The chat independent of its display: commands, files, state.

Private: not part of the public API, and may change at any time.
"""
