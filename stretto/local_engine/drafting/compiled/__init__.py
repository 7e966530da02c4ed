"""What drafts at every step, compiled."""
