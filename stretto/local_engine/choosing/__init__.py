"""Chooses the next token from logits: sampling, constraints and the verification of drafts."""
