"""The engine: its thread and queue, scheduler, prefill and batch."""
