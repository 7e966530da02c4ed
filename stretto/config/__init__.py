"""Settings, and values that are kept between programs.

Private: not part of the public API, and may change at any time.
"""
