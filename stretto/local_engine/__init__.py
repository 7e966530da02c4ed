"""A causal language model in this process."""
