"""Answers in a ``response_format``.

Private: not part of the public API, and may change at any time.
"""
