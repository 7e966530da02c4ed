"""Requests in, tokens out: the engine's thread, its scheduler, its batch and its prefill."""
