"""One forward: layers, attention, rows, and the calls of compiled code.

Private: not part of the public API, and may change at any time.
"""
