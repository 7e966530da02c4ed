"""The measured abilities of each model (`stretto check`), which the router and the prompts rely on.

This package knows strategies only through the questions it asks.

Private: not part of the public API, and may change at any time.
"""

from stretto.abilities.kept import Abilities, Ability, abilities_of, keep

__all__ = ["Abilities", "Ability", "abilities_of", "keep"]
