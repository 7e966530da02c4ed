"""Hooks of mkdocs: the README is the first page, and links out of ``docs/`` lead to the repository.

Pages load nothing from elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

__all__ = ["on_files", "on_page_markdown", "on_post_page", "on_post_template"]

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()((?:\.\./)+)([^)\s]+\))")
DOCS = re.compile(r'(\]\(|src="|srcset=")docs/')
SHIM = re.compile(r'<script src="https://unpkg\.com/[^"]*"></script>')
BESIDE = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the README and the changelog, which stand outside of ``docs/``."""
    source = config["extra"]["source"]
    for name, page in (("README.md", "index.md"), ("CHANGELOG.md", "changes.md")):
        text = (ROOT / name).read_text(encoding="utf-8")
        parts = re.split(r"(\]\(docs/[^)\s]+\))", text)  # links into docs/ stay, the others lead to the repository
        text = "".join(part if at % 2 else BESIDE.sub(rf"\1{source}/\2", part) for at, part in enumerate(parts))
        text = DOCS.sub(r"\1", text).replace(f"{source}/CHANGELOG.md", "changes.md")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Point links such as ``../benchmarks/`` at the repository."""
    depth = page.file.src_uri.count("/") + 1  # of `../` that lead out of docs/

    def link(found: re.Match[str]) -> str:
        outside = found[2].count("../") >= depth
        return f"{found[1]}{config['extra']['source']}/{found[3]}" if outside else found[0]

    return LINK.sub(link, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Search from a folder without the script that the theme would load from the network for it."""
    worker = (ROOT / "docs" / "site_worker.js").read_text(encoding="utf-8")
    return SHIM.sub(lambda _: f"<script>{worker}</script>", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same in the page for wrong addresses."""
    return on_post_page(output_content)
