"""Hooks, traces and metrics, and logs as JSON.

Private: not part of the public API, and may change at any time.
"""
