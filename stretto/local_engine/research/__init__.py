"""Methods that no `auto` chooses on any hardware that was measured, a folder each; see `docs/research.md`.

Nothing outside imports from here: `stretto.local_engine.research_registry` finds what a folder offers. A folder that is
deleted is missing, and nothing else.

Private: not part of the public API, and may change at any time.
"""
