"""What every room stands on and that knows nothing of answers: checked arguments, threads, queues, text repair.

Private: not part of the public API, and may change at any time.
"""
