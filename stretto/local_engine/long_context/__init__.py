"""Documents longer than the window: FocusLLM and Star attention around a frozen decoder; see `docs/long-context.md`.

Private: not part of the public API, and may change at any time.
"""
