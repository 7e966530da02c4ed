"""Compiles the kernels and caches their code.

Private: not part of the public API, and may change at any time.
"""
