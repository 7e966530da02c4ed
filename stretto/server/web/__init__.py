"""The web chat: one page, served from this package, that needs no other site.

Private: not part of the public API, and may change at any time.
"""
