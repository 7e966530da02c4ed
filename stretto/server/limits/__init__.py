"""Who is admitted, how much at a time, and what it costs.

Private: not part of the public API, and may change at any time.
"""
