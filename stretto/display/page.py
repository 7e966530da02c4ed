"""One page in one file: nothing is loaded from elsewhere, and no script runs."""

from __future__ import annotations

from html import escape

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.55 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
table{border-collapse:collapse}td,th{padding:.2rem .7rem;border-bottom:1px solid #d1d9e0;text-align:left}
td.number{text-align:right;font-variant-numeric:tabular-nums}
pre{overflow-x:auto;padding:.8rem;background:#f6f8fa;border-radius:6px}blockquote{border-left:3px solid #d1d9e0;
margin-left:0;padding-left:1rem}.dim{color:#59636e}
@media (prefers-color-scheme:dark){body{color:#f0f6fc;background:#0d1117}td,th{border-color:#3d444d}
pre{background:#151b23}.dim{color:#9198a1}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, *parts: str) -> str:
    """A whole HTML page. ``title`` is escaped; ``parts`` are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
