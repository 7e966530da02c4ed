"""Texts outside of a request that are searched for drafts: earlier answers and files.

Private: not part of the public API, and may change at any time.
"""
