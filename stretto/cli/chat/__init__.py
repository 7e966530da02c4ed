"""The chat, however it is shown: its commands, its files, its state.

Private: not part of the public API, and may change at any time.
"""
