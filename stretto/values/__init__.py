"""Requests, answers, events and errors.

Private: not part of the public API, and may change at any time.
"""
