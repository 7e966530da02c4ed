"""Trains block diffusion models, and adapters that let a causal model write several tokens at once."""
