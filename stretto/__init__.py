"""Stretto: language models answer faster by writing the parts of an answer in parallel."""
