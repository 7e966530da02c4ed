"""The web chat: one page, served from this package, that works without any other site."""
