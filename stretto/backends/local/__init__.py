"""The local engine as a backend.

Private: not part of the public API, and may change at any time.
"""
