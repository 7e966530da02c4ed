"""From logits to the next token: sampling, constraints, verification of drafts."""
