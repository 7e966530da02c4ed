"""One forward: layers, attention, rows, and the compiled code behind them.

Private: not part of the public API, and may change at any time.
"""
