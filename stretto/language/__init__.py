"""Words and spelling by language, as data: numbers, points, units, forms, tails, notes.

Imports nothing else from the library.

Private: not part of the public API, and may change at any time.
"""
