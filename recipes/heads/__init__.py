"""Heads that draft what a frozen model will say."""
