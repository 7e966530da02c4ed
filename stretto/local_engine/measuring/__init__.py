"""How fast a model is on this machine, and compiling before anybody waits for it.

Private: not part of the public API, and may change at any time.
"""
