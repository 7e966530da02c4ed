"""Compiled code of EAGLE-3 heads.

Private: not part of the public API, and may change at any time.
"""
