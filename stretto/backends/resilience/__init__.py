"""Wrappers that add behaviour to a backend: retry, hedge, pace, breaker, stall.

Private: not part of the public API, and may change at any time.
"""
