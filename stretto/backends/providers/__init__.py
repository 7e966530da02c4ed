"""Backends for models behind an API: a module for each provider, and what they share.

Private: not part of the public API, and may change at any time.
"""
