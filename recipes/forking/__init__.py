"""Trains a model that forks and joins by itself: it writes tags around what can be written side by side."""
