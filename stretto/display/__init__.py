"""Answers, routes and timelines as images and HTML, for notebooks, files and the server's pages.

Everything is one string without scripts or external resources. Model text is untrusted: it is escaped, or rendered by a
Markdown parser that lets through neither HTML nor images.

Private: not part of the public API, and may change at any time.
"""

from stretto.values.answer import Answer
from stretto.values.route import Route


def show_in_notebooks() -> None:
    """Give answers and routes a rich display in notebooks. The renderer is imported on first use."""
    Answer._html, Answer._markdown = _answer_html, str  # notebooks sanitise the Markdown that they show
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
