"""Texts outside of a request in which its drafts are looked for: earlier answers, files.

Private: not part of the public API, and may change at any time.
"""
