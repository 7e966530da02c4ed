"""The Python of the guides runs as it stands; names of OpenAI's models are answered by a scripted server."""

import logging
import os
import re
from functools import cache
from pathlib import Path

import anyio
import pytest
from plans import ASKED, plan

from stretto.testing.server import ReplyRule, ScriptedServer

GUIDES = Path(__file__).parents[2] / "docs"
PAGES = [
    "asking.md",
    "backends.md",
    "items.md",
    "several-models.md",
    "tools.md",
    "local-models.md",
    "errors.md",
    "langchain.md",
]
# No guides, but their code runs too.
SHORT = [
    "../README.md",
    "when-an-answer-is-wrong.md",
    "testing.md",
    "observing.md",
    "strategies.md",
    "cost.md",
    "router.md",
    "decoding.md",
    "research.md",
]
REPLIES = [
    ReplyRule("as JSON", '{"name": "Kyoto", "country": "Japan"}'),
    ReplyRule(ASKED, plan("Clean it", "Oil the chain", "Check the tyres")),
    ReplyRule("positive or negative", "positive"),
    ReplyRule("", "A text."),
]
BESIDE = ("examples", "recipes", "benchmarks/results")
LINKING = [
    *GUIDES.parent.glob("*.md"),
    *GUIDES.rglob("*.md"),
    *(page for folder in BESIDE for page in (GUIDES.parent / folder).rglob("*.md")),
]
pytestmark = pytest.mark.anyio


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (GUIDES / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def logs_as_before():
    """A guide shows how logs are written to standard error, which here is that of one test."""
    logger = logging.getLogger("stretto")
    handlers, level = [*logger.handlers], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.thorough
@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize(
    ("page", "number"), [(page, at) for page in [*PAGES, *SHORT] for at in range(len(snippets(page)))]
)
async def test_the_snippets_of_the_guides_run(page, number, monkeypatch, capsys, tmp_path):
    code = compile(snippets(page)[number], page, "exec")  # as a script is
    monkeypatch.chdir(tmp_path)  # where a picture is saved
    async with ScriptedServer(REPLIES) as server:
        monkeypatch.setenv("STRETTO_BASE_URL", server.openai_url)
        monkeypatch.setenv("STRETTO_API_KEY", "any")
        # In a separate thread, because the server answers in this one.
        await anyio.to_thread.run_sync(exec, code, {"__name__": "guide"})
    assert capsys.readouterr().out.strip() or "print" not in snippets(page)[number]


def test_links_between_pages_lead_somewhere():
    links = [
        (page, target)
        for page in LINKING
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not target.startswith(("http:", "https:"))
    ]
    assert len(links) > 50
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def test_pictures_of_the_readme_are_there():
    readme = GUIDES.parent / "README.md"
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', readme.read_text(encoding="utf-8"))
    assert len(pictures) == 6
    assert [each for each in pictures if not (readme.parent / each).exists()] == []


def _anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_links_to_headings_lead_somewhere():
    links = [
        (page, target, heading)
        for page in LINKING
        for target, heading in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if page.name != "reference.md"
    ]
    assert len(links) > 20
    wrong = [
        (page.name, target, heading)
        for page, target, heading in links
        if heading not in _anchors(page.parent / target if target else page)
    ]
    assert wrong == []


@pytest.mark.parametrize("page", [*(page for page in PAGES if page != "langchain.md"), "testing.md", "extending.md"])
def test_each_guide_leads_to_the_reference(page):
    assert "](reference.md" in (GUIDES / page).read_text(encoding="utf-8")


USERS_FILES = {
    *("NAME.md", "adapter_config.json", "focus.safetensors", "reading.safetensors", "report.kept.jsonl"),
    "settings.toml",
}


@cache
def files():
    """The files of the repository, without what is built and installed."""
    found = []
    for folder, folders, names in os.walk(GUIDES.parent):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in ("build", "dist")]
        found += [f"{folder}/{name}" for name in names]
    return found


@pytest.mark.parametrize(
    "page", sorted({*PAGES, "gpu.md", "models.md", "router.md", "long-context.md", "extending.md"})
)
def test_files_that_a_page_names_are_there(page):
    text = (GUIDES / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+\.(?:py|toml|txt|jsonl?|md|npz|safetensors))`", text)
    assert [
        name
        for name in named
        if Path(name).name not in USERS_FILES and not any(each.endswith(f"/{name}") for each in files())
    ] == []
