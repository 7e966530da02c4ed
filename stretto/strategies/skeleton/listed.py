"""Writes a list that was asked for by a plan: an opening and the names of its items, then the items side by side."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.language.forms import FormName
from stretto.router.parse import Parse
from stretto.strategies.runtime.merge import TextFilter
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.skeleton.plan import PlanParser, Section
from stretto.strategies.skeleton.points_text import INDENTS, PointText, label
from stretto.strategies.skeleton.sections import SectionsAnswer
from stretto.strategies.skeleton.skeleton_offer import items_of
from stretto.values.request import Request
from stretto.values.route import Route


class ListAnswer(SectionsAnswer):
    """One list. Its items start once all names are there, and are numbered, or marked, by the library."""

    section_template, name_of_one, name_of_several = "list_item", "item", "items"
    headed = "Its name is put before it. Begin with the content"

    def __init__(self, request: Request, route: Route, runner: Runner, parse: Parse) -> None:
        super().__init__(request, route, runner, parse)
        self._form: FormName = "bulleted" if parse.form == "bulleted" else "numbered"
        self._items = items_of(parse, self._whole_length())
        self._labels = 0
        if parse.points.asked:
            self._fewest = self._items
        self._parser = PlanParser(self._items)

    async def _know(self) -> None:
        if self._parser.headings_are_complete or self._complete:
            self._parser.complete()
        await super()._know()

    def _plan_values(self, words: int) -> tuple[str, dict[str, str]]:
        many = f"Exactly {self._items}" if self._parse.points.asked else f"{self._fewest} to {self._items}"
        return "plan_list", {"words": str(words), "sections": many}

    def _section_values(self, sections: Sequence[Section]) -> dict[str, str]:
        words = f"about {max(1, self._words_of(sections[0]) // 5) * 5} words"
        return {"words": words if len(sections) == 1 else f"{words} each"}

    def _label(self, heading: str) -> str:
        self._labels += 1
        return ("\n\n" if self._labels == 1 else "") + label(self._form, heading, self._labels)

    def _filter(self, section: Section | None = None) -> TextFilter | None:
        return None if section is None else PointText(section.heading, INDENTS[self._form])
