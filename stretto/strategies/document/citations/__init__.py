"""From the marks of an answer to places in documents.

Private: not part of the public API, and may change at any time.
"""
