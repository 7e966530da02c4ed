"""LoRA and other adapters, merged into the weights or kept separate.

Private: not part of the public API, and may change at any time.
"""
