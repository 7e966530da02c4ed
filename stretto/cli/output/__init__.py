"""Display of answers and figures on a terminal.

Private: not part of the public API, and may change at any time.
"""
