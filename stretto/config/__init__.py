"""Settings, and values that persist between programs.

Private: not part of the public API, and may change at any time.
"""
