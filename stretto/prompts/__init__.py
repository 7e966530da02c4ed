"""The templates of all prompts that the library sends, as files, and a catalogue to list, show and override them.

Private: not part of the public API, and may change at any time.
"""

from stretto.prompts.catalogue import GENERAL, POCKET, SMALL, Catalogue, Template, family_for, family_of, parameters_in

__all__ = ["GENERAL", "POCKET", "SMALL", "Catalogue", "Template", "family_for", "family_of", "parameters_in"]
