"""The APIs over HTTP: how each reads a request and writes its answer.

Private: not part of the public API, and may change at any time.
"""
