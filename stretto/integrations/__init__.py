"""Stretto inside other tools; each module imports its package on first use."""
