"""How passages are read, and what is noted of them.

Private: not part of the public API, and may change at any time.
"""
