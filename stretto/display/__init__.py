"""Answers, routes and timelines as pictures and HTML: for notebooks, for files, and for the pages of the server.

Everything is one string without scripts and without anything loaded from elsewhere. Model text is untrusted: it is
escaped, or rendered by a Markdown parser that passes no HTML and draws no images.

Private: not part of the public API, and may change at any time.
"""

from stretto.values.answer import Answer
from stretto.values.route import Route


def show_in_notebooks() -> None:
    """Let answers and routes show themselves richly in notebooks. What draws them is imported for the first one."""
    Answer._html, Answer._markdown = _answer_html, str  # what shows Markdown in a notebook sanitises it
    Route._html, Route._markdown = _route_html, _route_markdown


def _answer_html(answer: Answer) -> str:
    from stretto.display.notebook import answer_html  # noqa: PLC0415 - as the docstring above says

    return answer_html(answer)


def _route_html(route: Route) -> str:
    from stretto.display.notebook import route_html  # noqa: PLC0415 - likewise

    return route_html(route)


def _route_markdown(route: Route) -> str:
    from stretto.display.notebook import route_markdown  # noqa: PLC0415 - likewise

    return route_markdown(route)
