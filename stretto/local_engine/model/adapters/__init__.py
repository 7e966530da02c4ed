"""LoRA and other adapters, merged or beside the weights.

Private: not part of the public API, and may change at any time.
"""
