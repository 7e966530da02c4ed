"""Compiles the kernels, and keeps their code.

Private: not part of the public API, and may change at any time.
"""
