"""Compiled code for processors. It imports nothing else of Stretto."""
