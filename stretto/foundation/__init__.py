"""Helpers without knowledge of answers, used by all packages: argument checks, threads, queues, text repair.

Private: not part of the public API, and may change at any time.
"""
