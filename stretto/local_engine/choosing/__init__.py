"""From logits to the next token: sampling, constraints and the verification of drafts."""
