"""Turns messages into tokens with chat templates, and tokens into text.

Private: not part of the public API, and may change at any time.
"""
