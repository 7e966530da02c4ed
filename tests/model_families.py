"""What models of known families write, as files in ``tests/markup/families``, and what it has to give.

A new family is a new file: where its forms are from (``told``), the ``marks`` that its chat template holds, what the
template ``begins`` an answer with, and cases. A case has what the model has ``written``, and what this ``gives``: text,
thoughts, calls and the finish reason; and ``marks`` and a beginning of its own where they differ. A server that passes
the text on tells nothing of its model: then a case may give something else (``served``), or is left out (``false``).
``locally`` is ``false`` where a chat template does not tell the form. The texts are written for these files; no model
ran.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from stretto.markup.forms import MarkupForm, form_of

TEMPLATE = (
    "{%% for tool in tools or [] %%}{{ tool | tojson }}{%% endfor %%}"
    "{%% for m in messages %%}[{{ m.role }}]{{ m.content }}{%% endfor %%}"
    "{# %s #}{%% if add_generation_prompt %%}[assistant]%s{%% endif %%}"
)
_KINDS = {"x": "integer", "s": "string", "on": "boolean", "l": "array"}
_OPTIONAL = {"n": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
PARAMETERS = {"type": "object", "properties": {name: {"type": kind} for name, kind in _KINDS.items()} | _OPTIONAL}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in "wz"]


@dataclass(frozen=True)
class Written:
    """One case: ``template`` and ``form`` of its model, ``begins``: what the prompt ends with."""

    family: str
    name: str
    text: str
    gives: dict
    served: dict | None
    template: str | None
    begins: str

    @property
    def id(self) -> str:
        return f"{self.family}-{self.name}"

    @property
    def form(self) -> MarkupForm:
        return form_of(self.template)


def _case(family, file, name, case):
    marks, begins = case.get("marks", file.get("marks")), case.get("begins", file.get("begins", ""))
    told = marks is not None and case.get("locally", True)
    served = case.get("served", case["gives"]) or None
    return Written(
        family, name, case["written"], case["gives"], served, TEMPLATE % (marks, begins) if told else None, begins
    )


_FILES = {path.stem: json.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("markup/families/*"))}
WRITTEN = [_case(family, file, name, case) for family, file in _FILES.items() for name, case in file["cases"].items()]
LOCAL = [case for case in WRITTEN if case.template is not None]
