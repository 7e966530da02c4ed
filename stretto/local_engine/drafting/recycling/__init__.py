"""Token recycling: the most probable successors that the model gave a token are guessed when it occurs again.

Private: not part of the public API, and may change at any time.
"""
