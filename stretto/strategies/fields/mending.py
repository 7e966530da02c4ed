"""One more call for required fields that two tries did not produce, with all other values of the record in its prompt.

What readers have seen of a record cannot be taken back, so the whole record is not rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stretto.backends.base import ModelRequest
from stretto.strategies.fields.record_plan import DEFINITIONS
from stretto.strategies.fields.value_text import MISSING, found_in, json_text, without_the_last
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.values.partial_values import path_name

if TYPE_CHECKING:
    from stretto.strategies.fields.record_run import RecordRun, Written


@dataclass(eq=False)
class Mending:
    """Fields that are requested together once all others are complete.

    Attributes:
        run: the run of the record.
        failed: what each field's last try wrote and what was wrong with it, as text for the prompt.
        running: the call for the fields.
        begun: whether the call has begun; further fields then need another one.
    """

    run: RecordRun
    failed: dict[Written, str] = field(default_factory=dict)
    running: RunningBranch | None = None
    begun: bool = False

    def take(self, written: Written, wrong: str) -> None:
        """Take a field; the first one starts the call, which waits for all fields that do not fail."""
        self.failed[written] = wrong
        if self.running is None:
            spec = replace(self._spec, prompt=self._prompt, until=self._until, on_end=self._ended)
            self.running = self.run.runner.start(spec)
            self.running.withhold()
        written.running = self.running
        written.over.set()

    @property
    def _spec(self) -> BranchSpec:
        names = [f"`{path_name(written.path)}`" for written in self.failed]
        which = f"only the field {names[0]}" if len(names) == 1 else f"only the fields {', '.join(names)}"
        return self.run.spec(
            "fields-again",
            "field",
            f"The record so far: {json_text(self.run.whole())}\n\nFill in {which} now, which it lacks.",
            self._together(),
            tokens=sum(each.part.tokens for each in self._covered()),
            fields=len(self._covered()),
            wrong="".join(self.failed.values()),
            title=", ".join(name.strip("`") for name in names),
        )

    def _prompt(self, target: PromptTarget) -> ModelRequest:
        """Return the prompt for the fields that have failed by then."""
        return self._spec.prompt(target)

    async def _until(self) -> None:
        while left := [each for each in self.run.written.values() if not (each.over.is_set() or self._is_needed(each))]:
            await left[0].over.wait()
        self.begun = True

    def _covered(self) -> list[Written]:
        """Return the fields that the call may cover when it begins: those that failed, and those that still may."""
        return [each for each in self.run.written.values() if each in self.failed or not each.over.is_set()]

    def _is_needed(self, written: Written) -> bool:
        """Return whether a value waits for one of the failed fields."""
        before = [each for path in written.part.after for each in self.run.of(path)]
        return any(each in self.failed or self._is_needed(each) for each in before)

    def _together(self) -> Mapping[str, Any]:
        covered = dict(self._schemas())
        if len(covered) == 1:
            return next(iter(covered.values()))[0]
        schemas = [schema for schema, _ in covered.values()]
        named = {name: each for schema in schemas for name, each in schema["properties"].items()}
        return {**schemas[0], **_definitions(*schemas), "properties": named, "required": list(named)}

    def _schemas(self) -> Iterator[tuple[Written, tuple[Mapping[str, Any], str]]]:
        """Yield for each field the schema of an object with it, and its name there; empty for the object itself."""
        for written in self.failed:
            whole = written.part.object_schema
            if len(self.failed) == 1:
                yield written, (whole, written.field_name)
                continue
            inner = whole if written.index is not None else whole["properties"][written.field_name]
            inner = {key: each for key, each in inner.items() if key not in DEFINITIONS} if inner is whole else inner
            name = path_name(written.path)
            closed = {"type": "object", "required": [name], "additionalProperties": False, **_definitions(whole)}
            yield written, ({**closed, "properties": {name: inner}}, name)

    def _ended(self, running: RunningBranch) -> None:
        cut = running.exception is not None or running.finish_reason != "stop"
        several = len(self.failed) > 1
        text = without_the_last(running.text) if cut and several else running.text
        for written, (schema, name) in list(self._schemas()):
            found = self.run.read_by_class(found_in(text, schema, name, cut=cut and not several), written)
            if found.value is MISSING:
                self.run.give_up(written, running, "" if cut else found.wrong)
            else:
                written.value = found.value
                written.end()


def _definitions(*schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the definitions of these schemas."""
    return {
        word: {name: each for schema in schemas for name, each in schema.get(word, {}).items()}
        for word in DEFINITIONS
        if any(word in schema for schema in schemas)
    }
