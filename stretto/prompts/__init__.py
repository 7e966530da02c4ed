"""The templates of every prompt the library sends, as files, and the catalogue to list, show and override them."""

from stretto.prompts.catalogue import POCKET, Catalogue, Template

__all__ = ["POCKET", "Catalogue", "Template"]
