"""Wrappers that add behaviour to a backend: retry, hedge, pace, breaker, stall."""
