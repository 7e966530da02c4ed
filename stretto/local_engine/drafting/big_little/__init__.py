"""Decoding by a big and a little model, after BiLD: lossy. One folder, which nothing else uses.

Private: not part of the public API, and may change at any time.
"""
