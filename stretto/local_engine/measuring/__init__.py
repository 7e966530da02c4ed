"""Benchmarks of a model on this machine, and compilation ahead of time.

Private: not part of the public API, and may change at any time.
"""
