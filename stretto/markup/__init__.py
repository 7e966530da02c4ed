"""What models write between markers: reasoning and tool calls.

Private: not part of the public API, and may change at any time.
"""
