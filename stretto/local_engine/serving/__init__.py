"""The engine: its thread and queue, scheduler, prefill and batch.

Private: not part of the public API, and may change at any time.
"""
