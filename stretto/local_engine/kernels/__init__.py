"""Compiled code for processors. It imports no other module of Stretto."""
