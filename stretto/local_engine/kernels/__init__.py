"""Code compiled for CPUs. Imports no other module of Stretto.

Private: not part of the public API, and may change at any time.
"""
