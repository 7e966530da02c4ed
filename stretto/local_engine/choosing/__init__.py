"""Choice of the next token from logits: sampling, constraints and the verification of drafts.

Private: not part of the public API, and may change at any time.
"""
