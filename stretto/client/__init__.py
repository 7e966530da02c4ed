"""The client: takes a request, starts the task that writes the answer, and yields its events.

Private: not part of the public API, and may change at any time.
"""
