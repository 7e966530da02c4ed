"""Answers, routes and timelines as pictures and HTML: for notebooks, for files, and for the pages of the server.

Everything is one string without scripts and without anything loaded from elsewhere. Model text is untrusted: it is
escaped, or rendered by a Markdown parser that passes no HTML and draws no images.

Private: not part of the public API, and may change at any time.
"""
