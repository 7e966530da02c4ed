"""What is asked for and what comes back: requests, answers, events, errors.

Private: not part of the public API, and may change at any time.
"""
