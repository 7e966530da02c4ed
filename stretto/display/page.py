"""Self-contained HTML pages, without external resources or scripts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape

from stretto.display.palette import SCHEMES, Scheme, palette


def _colours(scheme: Scheme) -> str:
    colours = palette(scheme)
    return (
        f"body{{color:{colours.text};background:{colours.back}}}td,th,blockquote{{border-color:{colours.line}}}"
        f"pre{{background:{colours.raised}}}.dim{{color:{colours.dim}}}"
    )


_STYLE = f"""
:root{{color-scheme:light dark}}
body{{font:16px/1.55 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem}}
h1{{font-size:1.3rem}}h2{{font-size:1.05rem;margin-top:2rem}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .7rem;border-bottom:1px solid;text-align:left}}
td.number{{text-align:right;font-variant-numeric:tabular-nums}}
pre{{overflow-x:auto;padding:.8rem;border-radius:6px}}
blockquote{{border-left:3px solid;margin-left:0;padding-left:1rem}}
{_colours("light")}
@media (prefers-color-scheme:dark){{{_colours("dark")}}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, *parts: str) -> str:
    """Return a complete HTML page. ``title`` is escaped; ``parts`` are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def table(heads: Iterable[str], rows: Iterable[Sequence[str]], texts: Collection[int] = (0,)) -> str:
    """Return a table of escaped texts; the columns in ``texts`` contain words, all others numbers."""

    def row(cells: Sequence[str]) -> str:
        kinds = ("" if at in texts else " class=number" for at in range(len(cells)))
        return "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{row(cells)}</tr>" for cells in rows)
    return f"<table><tr>{''.join(f'<th>{escape(each)}</th>' for each in heads)}</tr>{body}</table>"


def svg(width: int, height: int, label: str, *parts: str) -> str:
    """Return an SVG image of the given elements."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def dim(text: str) -> str:
    """Return a remark in dimmed text."""
    return f'<p class="dim">{escape(text)}</p>'


def section(figures: str, text: str, warnings: Iterable[str] = ()) -> str:
    """Return one of the answers shown side by side, with its figures above it."""
    return f"<section>{dim(figures)}<div>{escape(text)}</div>{''.join(map(dim, warnings))}</section>"


def side_by_side(summary: str, sections: Iterable[str], remarks: Iterable[str] = ()) -> str:
    """Return a collapsible element with the answers to one question side by side."""
    return (
        f"<details><summary>{escape(summary)}</summary>{''.join(map(dim, remarks))}"
        f'<div class="pair">{"".join(sections)}</div></details>'
    )


def style_of_pairs(colours: Callable[[Scheme], str]) -> str:
    """Return the style element of a page that shows answers side by side.

    Args:
        colours: returns the page's CSS rules for a scheme.
    """
    light, dark = (f".pair div{{border-color:{palette(scheme).line}}}{colours(scheme)}" for scheme in SCHEMES)
    return f"""<style>
body{{max-width:1100px}}
.pair{{display:grid;grid-template-columns:1fr 1fr;gap:1rem}}
.pair div{{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;border-radius:6px;padding:.7rem}}
summary{{cursor:pointer;padding:.3rem 0}}svg{{max-width:100%;height:auto}}
svg text{{font:12px system-ui,sans-serif;fill:currentColor}}
{light}
@media (max-width:700px){{.pair{{grid-template-columns:1fr}}}}
@media (prefers-color-scheme:dark){{{dark}}}
</style>"""
