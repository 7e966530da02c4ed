"""What models write between marks: what they think, and the tools that they call.

Private: not part of the public API, and may change at any time.
"""
