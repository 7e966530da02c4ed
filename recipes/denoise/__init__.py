"""Trains block diffusion models."""
