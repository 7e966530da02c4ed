"""Write `docs/reference.md` from the docstrings: ``python docs/make_reference.py``.

griffe reads the sources, griffe2md renders them. What is added here: which objects, in which order, and links that
GitHub resolves.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from griffe import (
    Alias,
    AliasResolutionError,
    Class,
    Docstring,
    DocstringAttribute,
    DocstringSectionAttributes,
    GriffeLoader,
    Object,
    Parser,
)
from griffe2md import prepare_context, prepare_env

import stretto
import stretto.calibrating
import stretto.comparing
import stretto.extending
import stretto.local
import stretto.testing.server

__all__ = ["main", "render"]

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """# Reference

Every public name, made from the docstrings by `make docs`. Start with the guides: [asking](asking.md),
[the command line](cli.md), [testing](testing.md), [extending](extending.md). Where a class lists its attributes or
parameters, its constructor takes them in that order; pass all but the first by name.
"""
SECTIONS = {
    "Clients": ("Stretto", "AsyncStretto", "ClientOptions", "ModelLike", "SyncAnswerStream", "AnswerStream"),
    "Requests": (
        "RequestOptions", "PromptLike", "Request", "GenerationOptions", "Message", "Document", "Heading", "Budget",
        "Tool",
    ),
    "Answers": (
        "Answer", "FinishReason", "Branch", "CutBy", "AnswerWarning", "WarningCode", "Writer", "Choice", "ToolCall",
        "Usage", "Cost", "Timeline", "TimelinePlot", "Span", "DecodingStats",
        "TokenLogprob", "Citation", "Evidence", "PassageRecord", "Agreement",
    ),
    "Routes": ("Route", "RouteCode", "Forecast", "DecodingForecast", "Router", "SecondOpinion", "Abilities", "Ability"),
    "Events": (
        "Event", "RouteChosen", "SectionPlanned", "BranchStarted", "FallbackStarted", "BranchDelta",
        "BranchFinished", "BranchFailed", "TextDelta", "ToolCallDelta", "ToolCallFragment", "ToolStarted",
        "ToolFinished", "ChoiceDelta", "VoteCounted", "TextEdited", "PassageRead", "ThoughtFinished", "RefusalStarted",
        "AnswerFinished",
    ),
}  # fmt: skip
BESIDE = {
    "Extending: `stretto.extending`": tuple(f"extending.{name}" for name in stretto.extending.__all__),
    "Local models: `stretto.local`": tuple(f"local.{name}" for name in stretto.local.__all__),
    "The server in an application: `stretto.server`": ("server.create_app", "server.ServerOptions"),
    "Comparing two ways of answering: `stretto.comparing`": tuple(
        f"comparing.{name}" for name in stretto.comparing.__all__ if name != "CRITERIA"
    ),
    "Learning when a small model's answer is accepted: `stretto.calibrating`": tuple(
        f"calibrating.{name}" for name in stretto.calibrating.__all__
    ),
    "Testing: `stretto.testing`": tuple(f"testing.{name}" for name in stretto.testing.__all__),
    "A scripted server: `stretto.testing.server`": tuple(
        f"testing.server.{name}" for name in stretto.testing.server.__all__
    ),
}  # fmt: skip
"""Public names outside ``stretto`` itself, which the guides import."""
INNER = {
    "AsyncStretto": ("store",),
    "BranchSpec": ("about", "ledger", "name"),
    "Calibration": ("answered", "trials"),
    "Case": ("able", "decoding", "judgement", "limits", "observe", "parse", "prices", "speed", "usual_tokens"),
    "Endpoints": (
        *("circuits", "limits", "store", "circuit", "rate_limits", "shared_health", "shared_limits"),
    ),
    "Learned": ("bound",),
    "Route": ("parse", "with_parse", "settled"),
    "Router": ("model",),
    "RouterCalibration": ("correction",),
    "Template": ("parts",),
    "RunningBranch": (
        *("calls", "others", "logprobs_sent"),
        *("reported", "scope", "counts", "was_read", "further", "new_logprobs", "caught_up"),
        *("outcome", "use", "progress", "metadata", "handed_over", "take_call", "hand_over"),
        *("writers", "wrote", "write", "end", "withhold"),
    ),
    "Runner": (
        *("ledger", "overran", "failure", "announce", "leaks", "send_along", "complete", "too_late", "target_of"),
    ),
}  # fmt: skip
"""Members of public classes that the package uses itself and nobody else should."""

HEADING = re.compile(r"^(#+) `stretto\.(?:\w+\.)*?((?:[A-Z]\w*\.)?\w+)`$", re.MULTILINE)
LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\(#(?P<target>[^)\n]*)\)")
FIELDS = re.compile(r"^\*\*(?:Attributes|Parameters):\*\*$", re.MULTILINE)
CONSTRUCTOR = re.compile(r"\A(### `\w+`\n\n)```python\n.*?\n```\n\n", re.DOTALL)
HEAD = re.compile(r"^Name \| .*\n---- \| .*\n", re.MULTILINE)
ROW = re.compile(r"^`\w+` \| .*$", re.MULTILINE)
ARGUMENT = re.compile(r" \| (?:<code>(.*)</code>|\*required\*)$")
PROPERTY = re.compile(
    r"^#### `\w+\.(?P<name>\w+)`\n\n```python\n(?P=name): (?P<kind>.*)\n```\n\n"
    r"(?P<said>(?:[^\n#*`>|-].*\n)+)(?=\n|\Z)\n?",
    re.MULTILINE,
)
METHOD = re.compile(r"^#### `(?P<owner>\w+)\.\w+`\n\n```python\n(?P<called>.*?)\n```\n", re.MULTILINE | re.DOTALL)
MADE_BY_CLIENTS = re.compile(r"### `(?:Sync)?AnswerStream`")
NAME = re.compile(r"### `(\w+)`$", re.MULTILINE)
CODE = re.compile(r"<code>.*?</code>|^\*\*`.*`\*\*$", re.MULTILINE)
TYPE_NAME = re.compile(r"\b[A-Z]\w*[a-z]\w*\b(?!\]?\()")
PUBLIC = {
    name
    for module in (stretto, stretto.extending, stretto.local, stretto.comparing, stretto.calibrating, stretto.testing)
    for name in module.__all__
}
CONFIGURATION: Any = {
    "docstring_section_style": "table",
    "filters": ["!^_", "^__call__$", "!^model_config$"],
    "heading_level": 3,
    "show_root_full_path": False,
    "show_bases": False,
    "summary": False,
    "separate_signature": True,
    "show_signature_annotations": True,
    "members_order": "source",
}
TEMPLATES = prepare_env()


def render() -> str:
    """The page: one section for each group of names, then errors, then what else is exported."""
    loader = GriffeLoader(docstring_parser=Parser.google)
    loader.load("stretto")
    loader.resolve_aliases(external=False)
    package: Any = loader.modules_collection["stretto"]
    parts, found = [INTRODUCTION], {}
    for title, names in _sections():
        parts.append(f"## {title}\n")
        parts += [_object(package, name) for name in names]
        found |= {name.rpartition(".")[2]: package[name] for name in names}
    sections = re.split(r"(?=^###? )", _linked("\n".join(parts)), flags=re.MULTILINE)
    return "\n".join(_compact(section, found).rstrip() + "\n" for section in sections)


def _sections() -> Iterator[tuple[str, list[str]]]:
    exported = set(stretto.__all__)
    errors = {name for name in exported if name.endswith("Error")}
    known = {name for names in SECTIONS.values() for name in names}
    for title, names in SECTIONS.items():
        yield title, [name for name in names if name in exported]
    yield "Backends, prompts, settings and hooks", sorted(exported - known - errors)
    yield "Errors", sorted(errors)
    yield from ((title, list(names)) for title, names in BESIDE.items())


def _object(package: Any, name: str) -> str:
    found = package[name]
    known: Object = found.final_target if found.is_alias else found
    if isinstance(known, Class):
        inner = INNER.get(name.rpartition(".")[2], ())
        for each in inner:
            known.members.pop(each, None)
        _gather_fields(known, inner)
    return _without_constructor(HEADING.sub(r"\1 `\2`", _rendered(known)))


def _rendered(known: Object) -> str:
    """What griffe2md's `render_object_docs` gives, which compiles all templates again for each object."""
    return TEMPLATES.get_template(f"{known.kind.value}.md.jinja").render(**prepare_context(known, CONFIGURATION))


def _without_constructor(text: str) -> str:
    """Leave out the constructor of a class that lists what it takes, or that only a client makes."""
    lists = FIELDS.search(text.partition("\n#### ")[0])
    return CONSTRUCTOR.sub(r"\1", text) if lists or MADE_BY_CLIENTS.match(text) else text


def _compact(section: str, found: Mapping[str, Any]) -> str:
    """Lists instead of tables, one entry for a property, one line for a method."""
    listed = _properties_first(ROW.sub(_row, HEAD.sub("", section)))
    text = re.sub(r"\n{3,}", "\n\n", METHOD.sub(_method, listed))
    heading = NAME.match(text)
    return _spelled_out(text, found[heading[1]]) if heading else text


def _spelled_out(text: str, found: Object | Alias) -> str:
    """Write types that have a name in their module only, such as `OnMissing`, as what they stand for."""
    names = (found.final_target if found.is_alias else found).module.members

    def spelled(name: re.Match[str]) -> str:
        known = names.get(name[0])
        try:
            value = getattr(known.final_target if known.is_alias else known, "value", None) if known else None
        except AliasResolutionError:  # of another package
            return name[0]
        return name[0] if value is None or name[0] in PUBLIC else str(value).replace("\n", "").replace("  ", "")

    for _ in range(2):  # what one stands for may name another
        text = CODE.sub(lambda code: TYPE_NAME.sub(spelled, code[0]), text)
    return text


def _properties_first(section: str) -> str:
    """Move the properties of a class to its attributes."""
    entries = "".join(_property(found) for found in PROPERTY.finditer(section))
    head, method, rest = PROPERTY.sub("", section).partition("\n#### ")
    lists = head.rstrip() + ("\n" if entries and head.rstrip().rpartition("\n")[2].startswith("- ") else "\n\n")
    return f"{lists}{entries}\n{method.lstrip()}{rest}" if entries else section


def _method(found: re.Match[str]) -> str:
    """A method as a line in bold: its class, and how it is called."""
    called = re.sub(r"\s+", " ", found["called"]).replace(" | ", "|").replace("( ", "(").replace(", )", ")")
    return f"**`{found['owner']}.{called}`**\n"


def _row(found: re.Match[str]) -> str:
    """A row of a table as an entry of a list: name, type, default, description."""
    name, kind, said = (cell.strip() for cell in re.split(r"(?<!\\) \| ?", found[0], maxsplit=2))
    if argument := ARGUMENT.search(said):
        said, written = said[: argument.start()], argument[1] or ""
    else:
        said, _, written = said.partition("Default: ")
        written = written.strip().rstrip(".").strip("`")
    kind = kind.replace(" \\| ", "|").replace(r"\|", "|").removeprefix("<code>").removesuffix("</code>")
    shown = f" <code>{kind}</code>" if kind else ""
    return f"- {name}{shown}{f' = `{written}`' if written not in ('', 'None') else ''}: {said.strip()}"


def _property(found: re.Match[str]) -> str:
    """A property with one paragraph as an entry of a list."""
    return f"- `{found['name']}` <code>{found['kind'].replace(' | ', '|')}</code>: {' '.join(found['said'].split())}\n"


def _gather_fields(known: Class, inner: Sequence[str]) -> None:
    """Turn the fields of a class into one table, with what its docstring says of them."""
    known.docstring = known.docstring or Docstring("", parent=known)
    sections = known.docstring.parsed
    table = next((each for each in sections if isinstance(each, DocstringSectionAttributes)), None)
    if table is None:
        table = DocstringSectionAttributes([])
        sections.append(table)
    told = {each.name: each.description for each in table.value if each.name not in inner}
    table.value.clear()
    for name, field in [(name, each) for name, each in known.members.items() if each.is_attribute]:
        if name.startswith("_") or name == "model_config" or "property" in field.labels:
            continue
        if name == "transient" and not told:  # of errors: said once, in BackendError
            known.members.pop(name, None)
            continue
        said = told.get(name) or (field.docstring.value if field.docstring else "")
        if not said and known.name == "Request" and name in stretto.RequestOptions.__annotations__:
            said = "see `RequestOptions`."
        default = "" if field.value is None or "class-attribute" not in field.labels else f"Default: `{field.value}`."
        if "ield(" in default:  # pydantic's and dataclasses' own descriptions of a default
            default = ""
        table.value.append(
            DocstringAttribute(name, annotation=field.annotation, description=f"{said} {default}".strip())
        )
        known.members.pop(name, None)
    if not table.value and table in sections:
        sections.remove(table)


def _linked(page: str) -> str:
    """Point links at the headings of this page; a type that is not on it is plain text."""
    anchors = {
        heading.rpartition(".")[2]: re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^### `?([\w.]+)`?$", page, re.MULTILINE)
    }

    def link(found: re.Match[str]) -> str:
        own = found["target"].startswith("stretto.")  # others have classes of the same names
        target = anchors.get(found["target"].rpartition(".")[2]) if own else None
        return f"[{found['text']}](#{target})" if target else found["text"]

    return re.sub(r"\n{3,}", "\n\n", LINK.sub(link, page))


def main() -> None:
    """Write the page, to the path that is given or to its place."""
    page = Path(sys.argv[1] if len(sys.argv) > 1 else PAGE)
    page.write_text(render(), encoding="utf-8")
    # Ruff formats the Python of Markdown files too.
    settings = Path(__file__).parents[1] / "pyproject.toml"
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", "--config", settings, page], check=True)


if __name__ == "__main__":
    main()
