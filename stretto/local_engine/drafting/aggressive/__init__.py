"""Aggressive decoding: an answer that is a changed copy of a given text is drafted from that text.

Private: not part of the public API, and may change at any time.
"""
