"""Methods that `auto` does not choose on any measured hardware, one folder each; see `docs/research.md`.

Nothing outside imports from here: `stretto.local_engine.research_registry` finds what a folder offers. Each folder can
be deleted without affecting anything else.

Private: not part of the public API, and may change at any time.
"""
