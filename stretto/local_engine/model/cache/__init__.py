"""The key-value cache, and prefixes that later prompts share.

Private: not part of the public API, and may change at any time.
"""
