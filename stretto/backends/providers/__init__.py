"""Backends for models behind an API: a module for each provider, and what these share."""
