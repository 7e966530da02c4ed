"""Stretto inside other tools; each imports its package when it is used."""
