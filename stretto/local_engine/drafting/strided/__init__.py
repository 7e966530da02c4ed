"""Introspective strided decoding (I-DLM): mask rows, read through an adapter, predict the tokens after the next one.

Private: not part of the public API, and may change at any time.
"""
