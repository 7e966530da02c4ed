"""What a model was measured to hold (`stretto check`), kept for each model; the router and the prompts go by it.

The room knows strategies by the questions it asks, and nothing else of them.

Private: not part of the public API, and may change at any time.
"""

from stretto.abilities.kept import Abilities, Ability, abilities_of, keep

__all__ = ["Abilities", "Ability", "abilities_of", "keep"]
