"""A module for each command.

Private: not part of the public API, and may change at any time.
"""
