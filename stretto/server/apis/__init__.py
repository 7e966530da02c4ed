"""The HTTP APIs: how each reads a request and writes its response.

Private: not part of the public API, and may change at any time.
"""
