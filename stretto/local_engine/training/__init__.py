"""Recipes that train what decoding methods need; each is a program of its own."""
