"""Decides from its JSON schema alone which call writes which part of a record.

One call first writes the short fields, then a line on what each long field will say, so that their writers agree.
Long texts, lists and objects follow in parallel. For an array of objects with long fields, the first call writes the
short fields of each element, and one call per element fills in the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from stretto.foundation.schema_graph import parts, pointed_at
from stretto.router.schema_tokens import SchemaTokens, elements_of, resolved, without_null
from stretto.values.partial_values import path_name
from stretto.values.request import Request

SHORT = 30  # tokens of a field that the first call writes
LEAST_TOKENS = 300  # of a record that is written in several calls
LARGE_OBJECT = 160  # tokens of an object that is split
FEWEST = 2  # calls for long fields
ROOMY = 1.5  # times the expected tokens of a call; a limit above this leaves room
OUTLINED = 28  # tokens of the line on what a long field will say: fifteen words
BRIEFLY = 20  # tokens of a line that other calls wait for: ten words
QUOTED = 200  # tokens of quotations in a call that looks up a field
_NAMED = 4  # letters of a field name that counts when a description contains it
DEFINITIONS = ("$defs", "definitions")
_TOGETHER = (
    "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$dynamicRef", "unevaluatedProperties", "dependentSchemas",
    "dependentRequired", "dependencies", "patternProperties", "propertyNames", "minProperties", "maxProperties", "enum",
    "const",
)  # fmt: skip
"""Object keywords that make fields depend on each other."""
_OF_ALL = (*_TOGETHER, "prefixItems", "contains", "uniqueItems", "unevaluatedItems")
"""Array keywords that make elements depend on each other, or add to what ``items`` says."""
_MOVED = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor")
_OF_FIELDS = ("properties", "required", "additionalProperties", "items")
_OF_OTHERS = re.compile(r"(?:^|_)(?:reasoning|rationale|thinking|thoughts?|chain_of_thought|scratchpad|steps)(?:$|_)")
_ANY_TEXT = frozenset({"type", "title", "description", "default", "examples", "after", "$comment", "deprecated"})


@dataclass(frozen=True)
class NotSplit:
    """The record is written in one piece; ``reason`` says why, as half a sentence."""

    reason: str


@dataclass(frozen=True)
class FieldPart:
    """One field that a separate call writes, or an array with one call per element.

    Attributes:
        path: names from the root of the record to it.
        schema: of its value.
        object_schema: schema of what its call writes: an object with this field or, for elements, their long fields.
        tokens: expected tokens of one call.
        after: paths of the parts that it needs.
        nullable: whether it can be null.
        required: whether its object must have it.
        keys: names of an element's fields that the first call writes; empty unless it is an array of elements.
        calls: expected number of calls.
        is_text: any text is valid, so it can be streamed.
    """

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    object_schema: Mapping[str, Any]
    tokens: int
    after: tuple[tuple[str, ...], ...] = ()
    nullable: bool = False
    required: bool = True
    keys: tuple[str, ...] = ()
    calls: int = 1
    is_text: bool = False

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True)
class Record:
    """The plan by which a record is written.

    Attributes:
        schema: of the whole record.
        first: schema of what the first call writes; ``None`` if there are no short fields.
        first_tokens: expected tokens of that call.
        parts: what the other calls write, in the order of the schema.
        tokens: expected tokens of the whole record.
        apart: whether each field is looked up separately.
    """

    schema: Mapping[str, Any]
    first: Mapping[str, Any] | None
    first_tokens: int
    parts: tuple[FieldPart, ...]
    tokens: int
    apart: bool = False

    @cached_property
    def lead(self) -> FieldPart | None:
        """The long text that the first call writes after the short fields, so that it can be read early."""
        texts = (part for part in self.parts if part.is_text and len(part.path) == 1 and not part.after)
        return None if self.first is None else next(texts, None)

    @property
    def calls(self) -> int:
        """Expected number of calls."""
        return sum(part.calls for part in self.parts) + (self.first is not None) - (self.lead is not None)

    @cached_property
    def by_path(self) -> Mapping[tuple[str, ...], FieldPart]:
        """The parts by their path."""
        return {part.path: part for part in self.parts}

    @cached_property
    def waves(self) -> Sequence[Sequence[FieldPart]]:
        """The parts in waves: each wave waits only for earlier ones."""
        depth: dict[tuple[str, ...], int] = {}

        def deep(part: FieldPart) -> int:
            if part.path not in depth:
                depth[part.path] = 0
                depth[part.path] = max((1 + deep(self.by_path[each]) for each in part.after), default=0)
            return depth[part.path]

        found: dict[int, list[FieldPart]] = {}
        for part in self.parts:
            found.setdefault(deep(part), []).append(part)
        return [found[level] for level in sorted(found)]

    def order(self, path: tuple[str, ...] = ()) -> list[str]:
        """Return the field names of an object of the record, in the order of its schema."""
        schema: Any = self.schema
        for name in path:
            schema = without_null(resolved(schema, self.schema), self.schema)["properties"][name]
        return list(without_null(resolved(schema, self.schema), self.schema)["properties"])


@dataclass(frozen=True)
class Outline:
    """Lines on what long fields will say, so that their writers agree.

    Attributes:
        names: the names of these fields.
        separate: whether a separate call writes the lines while the first call writes its long text, which has none.
    """

    names: tuple[str, ...]
    separate: bool

    @property
    def words(self) -> str:
        """The most words of one line."""
        return "ten" if self.separate else "fifteen"

    @property
    def tokens(self) -> int:
        """Expected tokens of all lines."""
        return len(self.names) * (BRIEFLY if self.separate else OUTLINED)

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of the object that contains the lines."""
        lines = {name: {"type": "string"} for name in self.names}
        return {"type": "object", "properties": lines, "required": list(lines), "additionalProperties": False}


def outline_of(request: Request, record: Record, lead: FieldPart | None, *, thinks: bool) -> Outline | None:
    """Return what writers of long fields agree on before they write; ``None`` for nothing.

    They agree on nothing if only time counts, or if token limits leave no room for lines that are not in the answer.

    Args:
        request: the request for the record.
        record: the record to write.
        lead: the long text that the first call continues with.
        thinks: whether the model reasons before it writes, so that one more call takes longer than the lines do.
    """
    if request.preference == "fastest" or record.apart or record.first is None:
        return None
    outlined = [part for part in record.parts if not part.keys]
    others = [part for part in outlined if part is not lead]
    separate = lead is not None and len(others) >= FEWEST and not (thinks or request.preference == "careful")
    found = Outline(tuple(path_name(part.path) for part in (others if separate else outlined)), separate)
    most = request.options.max_tokens
    limits = [request.part_tokens, None if most is None else most // max(1, record.calls + separate)]
    needed = ROOMY * (record.first_tokens + found.tokens + (0 if lead is None else lead.tokens))
    has_room = request.budget.max_tokens_total is None and all(limit is None or limit >= needed for limit in limits)
    return found if has_room and len(outlined) >= FEWEST else None


def record_of(
    schema: Any, learned: Mapping[str, int] | None = None, *, explicit: bool = False, apart: bool = False
) -> Record | NotSplit:
    """Plan how a record of this schema is written.

    Args:
        schema: of the record.
        learned: tokens that its fields had before, by the name of their path.
        explicit: whether the strategy was requested, whatever it saves.
        apart: whether each field is a part, however short, because each is looked up separately in documents.
    """
    if not isinstance(schema, Mapping):
        return NotSplit("the format is no object with fields")
    try:
        least = 0 if explicit or apart else LEAST_TOKENS
        return _Planner(schema, learned or {}, least, apart=apart).record()
    except RecursionError:
        return NotSplit("its schema is nested too deeply to be taken apart")


@dataclass
class _Planner:
    root: Mapping[str, Any]
    learned: Mapping[str, int]
    least: int
    apart: bool = False
    found: list[FieldPart] = field(default_factory=list)

    def record(self) -> Record | NotSplit:
        top = resolved(self.root, self.root)
        if (reason := next(self._against(top), None)) is not None:
            return NotSplit(reason)
        self.tokens = SchemaTokens(self.root)
        first = self._pruned(top, ())
        first_tokens = self._first_tokens
        if not self.apart:
            self.found = [self._ordered(part) for part in self.found]
        total = first_tokens + sum(part.tokens * part.calls for part in self.found)
        if not self.apart and (reason := self._too_little(total) or self._out_of_order()) is not None:
            return NotSplit(reason)
        first_schema = None if first is None else self._alone(first)
        return Record(self.root, first_schema, first_tokens, tuple(self.found), total, self.apart)

    def _against(self, top: Mapping[str, Any]) -> Iterator[str]:
        """Yield the reasons why a record of this schema cannot be split."""
        if not _is_object(top):
            union = any(keyword in top for keyword in ("anyOf", "oneOf"))
            yield "it is one of several forms" if union else "the format is no object with fields"
            return
        yield from (f"{each} of its schema holds several fields together" for each in _TOGETHER if each in top)
        yield from (f"its schema requires {name!r} and does not say what it is" for name in _undescribed(top))
        if _is_open(top):
            yield "its schema describes fields that it does not name"
        if self._is_spread(self.root):
            yield "its fields are described in several places"
        if any(keyword in each for each in _all(self.root) for keyword in _MOVED) or not self._is_local():
            yield "its schema refers to places outside of its definitions"
        elif isinstance(itself := self.root.get("$ref"), str) and itself in self._reached(top):
            yield "it holds records of its own kind"

    _first_tokens = 0

    def _too_little(self, total: int) -> str | None:
        many = sum(part.calls for part in self.found)
        if total < self.least:
            return f"its fields have about {total} tokens together, which one call writes as fast"
        if many < FEWEST:
            return f"{'only one' if many else 'none'} of its fields is long"
        return None

    def _out_of_order(self) -> str | None:
        names = list(resolved(self.root, self.root)["properties"])
        for part in self.found:
            later = names[names.index(str(part.path[0])) + 1 :]
            if _OF_OTHERS.search(part.name.lower()) and later and len(part.path) == 1:
                return f"{part.name!r} comes before the fields that build on it"
        if wrong := next(
            (f"{a}, which is not a field next to it" for p in self.found for a in _unknown(p, self)), None
        ):
            return f"the order of its fields names {wrong}"
        if circle := self._circle():
            return f"{circle!r} needs fields that need it"
        return None

    def _pruned(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
        """Return an object's schema with only its short fields; the others become parts."""
        named = schema["properties"]
        required = _required(schema)
        kept: dict[str, Any] = {}
        for name, given in named.items():
            if (short := self._field(given, (*path, name), required=name in required)) is not None:
                kept[name] = short
        if not kept:
            return None
        return _closed(schema, kept)

    def _field(self, given: Any, path: tuple[str, ...], *, required: bool) -> Any:
        """Return the schema of a field for the first call; ``None`` if another call writes it."""
        described = resolved(given, self.root)
        tokens = self.tokens.of(given, path[-1])
        inner = without_null(described, self.root) if isinstance(described, Mapping) else {}
        if not _is_object(resolved(inner.get("items"), self.root)):  # of those, tokens of one element are learned
            tokens = self.learned.get(path_name(path), tokens)
        is_free = isinstance(described, Mapping) and not described.get("after")
        is_first = (tokens <= SHORT and is_free) or not path[-1]  # a field with an empty name cannot be asked for
        if not isinstance(described, Mapping) or (is_first and not self.apart):
            self._first_tokens += tokens + 4
            return given
        nullable = _takes_null(described)
        # If null is possible, one call has to decide whether there is an object.
        if (
            _is_object(inner)
            and not nullable
            and required
            and not (self._is_indivisible(inner) or self._is_spread(given))
            and (tokens >= LARGE_OBJECT or self.apart)
        ):
            return self._pruned(inner, path)
        may_split = required and not (nullable or self.apart or self._is_spread(given))
        elements = self._elements(inner, path) if may_split else None
        if elements is not None:
            short, part = elements
            self.found.append(part)
            return short
        self.found.append(
            FieldPart(
                path=path,
                schema=_without_after(self._alone(described)),
                object_schema=self._alone(object_with(path[-1], _without_after(given))),
                tokens=tokens + QUOTED * self.apart,
                nullable=nullable,
                required=required,
                is_text=inner.get("type") == "string" and _ANY_TEXT.issuperset(inner),
            )
        )
        return None

    def _elements(self, schema: Mapping[str, Any], path: tuple[str, ...]) -> tuple[dict[str, Any], FieldPart] | None:
        """Split an array of objects into the short fields of its elements and the part that fills in the long ones."""
        items = resolved(schema.get("items"), self.root)
        if schema.get("type") != "array" or not isinstance(items, Mapping) or not _is_object(items):
            return None
        if (
            self._is_indivisible(items)
            or self._is_spread(schema["items"])
            or any(keyword in schema for keyword in _OF_ALL)
        ):
            return None
        named = items["properties"]
        size = {name: self.tokens.of(each, name) for name, each in named.items()}
        keys = [name for name in named if size[name] <= SHORT]
        long = [name for name in named if size[name] > SHORT]
        each = sum(size[name] + 4 for name in long)
        if not keys or each <= SHORT:
            return None
        count = elements_of(schema)
        if count * each < LARGE_OBJECT:
            return None

        def only(names: Sequence[str]) -> dict[str, Any]:
            return _closed(items, {name: named[name] for name in names})

        self._first_tokens += 4 + count * sum(size[name] + 4 for name in keys)
        part = FieldPart(
            path=path,
            schema=self._alone({**items}),
            object_schema=self._alone(only(long)),
            tokens=self.learned.get(path_name(path), each),
            keys=tuple(keys),
            calls=count,
        )
        return {**schema, "items": only(keys)}, part

    def _ordered(self, part: FieldPart) -> FieldPart:
        """Return the part with the parts that it needs: those in ``after``, else those in its description."""
        described = resolved(self._at(part.path), self.root)
        siblings = {each.path[-1]: each.path for each in self.found if each.path[:-1] == part.path[:-1]}
        siblings.pop(part.name, None)
        given = described.get("after") if isinstance(described, Mapping) else None
        if isinstance(given, list):
            wanted = [siblings[name] for name in given if name in siblings]
        else:
            own = _description(described)
            wanted = [path for name, path in siblings.items() if _names(own, name)]
            others = {path: _description(resolved(self._at(path), self.root)) for path in wanted}
            # If two name each other, neither waits.
            wanted = [path for path in wanted if not _names(others[path], part.name)]
        return replace(part, after=tuple(wanted))

    def _at(self, path: tuple[str, ...]) -> Any:
        schema: Any = self.root
        for name in path:
            schema = without_null(resolved(schema, self.root), self.root)["properties"][name]
        return schema

    def _circle(self) -> str | None:
        needs = {part.path: set(part.after) for part in self.found}
        while free := [path for path, needed in needs.items() if not needed]:
            for path in free:
                del needs[path]
            needs = {path: needed.difference(free) for path, needed in needs.items()}
        return path_name(next(iter(needs))) if needs else None

    def _is_indivisible(self, schema: Mapping[str, Any]) -> bool:
        return any(keyword in schema for keyword in _TOGETHER) or bool(_undescribed(schema)) or _is_open(schema)

    def _is_spread(self, given: Any) -> bool:
        """Return whether an object's fields are not all described in one place, relative to which references resolve.

        Keywords next to a ``$ref`` add to its target in newer dialects and are ignored in older ones. In an object with
        an ``$id``, references resolve to its own definitions.
        """
        schema, seen = given, set[int]()
        while isinstance(schema, Mapping) and id(schema) not in seen:
            seen.add(id(schema))
            refers = isinstance(schema.get("$ref"), str)
            if refers and any(keyword in schema for keyword in _OF_FIELDS):
                return True
            if schema is not self.root and _has_base(schema) and any("$ref" in each for each in _all(schema)):
                return True
            schema = pointed_at(schema["$ref"], self.root) if refers else None
        return False

    def _is_local(self) -> bool:
        """Return whether each reference points to a definition at the root, which is copied along with a part."""
        named = [each["$ref"] for each in _all(self.root) if isinstance(each.get("$ref"), str)]
        return all(each.split("/")[1:2] and each.split("/")[:2] in (["#", d] for d in DEFINITIONS) for each in named)

    def _reached(self, schema: Any) -> set[str]:
        """Return the references that can be reached from a schema."""
        seen: set[str] = set()
        level: list[Any] = [{key: value for key, value in schema.items() if key not in DEFINITIONS}]
        while level:
            new = {each["$ref"] for part in level for each in _all(part) if isinstance(each.get("$ref"), str)} - seen
            seen |= new
            level = [pointed_at(each, self.root) for each in new]  # a definition can itself be a reference
        return seen

    def _alone(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a self-contained schema, with the definitions that it needs, in the dialect of the whole."""
        dialect = {"$schema": self.root["$schema"]} if "$schema" in self.root else {}
        bare = dialect | {key: value for key, value in schema.items() if key not in DEFINITIONS}
        reached = self._reached(bare)
        for word in DEFINITIONS:
            names = {unquote(each.split("/")[2]) for each in reached if each.startswith(f"#/{word}/")}
            named = self.root.get(word)
            if names and isinstance(named, Mapping):
                bare[word] = {name: each for name, each in named.items() if _pointer(name) in names}
        return bare


def _required(schema: Mapping[str, Any]) -> list[str]:
    return [each for each in schema.get("required") or () if isinstance(each, str)]


def _undescribed(schema: Mapping[str, Any]) -> list[str]:
    """Return required fields that an object's schema does not describe: no call would write them."""
    return [name for name in _required(schema) if name not in schema["properties"]]


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema describes additional fields: no call would write them."""
    more = schema.get("additionalProperties")
    return isinstance(more, Mapping) and bool(more)


def _closed(schema: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema with only these of its fields."""
    required = [name for name in _required(schema) if name in kept]
    bare = {key: value for key, value in schema.items() if key != "required"}
    bare |= {"type": "object", "properties": dict(kept), "additionalProperties": False}
    return {**bare, "required": required} if required else bare  # in draft 4, ``required`` must not be empty


def _has_base(schema: Mapping[str, Any]) -> bool:
    """Return whether the references of a schema do not begin at the root; before draft 6, ``id`` marks this."""
    given = schema.get("$id", schema.get("id"))
    return isinstance(given, str) and not given.startswith("#")


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def object_with(name: str, schema: Any) -> dict[str, Any]:
    """Return the schema of an object with this field and no other."""
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


def _without_after(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "after"}


def _unknown(part: FieldPart, planner: _Planner) -> Iterator[str]:
    """Yield the names in ``after`` of a part that are not other fields of its object."""
    described = resolved(planner._at(part.path), planner.root)
    parent = without_null(resolved(planner._at(part.path[:-1]), planner.root), planner.root)
    given = described.get("after") if isinstance(described, Mapping) else None
    if isinstance(given, list):
        yield from (repr(name) for name in given if name not in parent["properties"] or name == part.name)


def _is_object(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or schema.get("type", "object") not in ("object", ["object"]):
        return False
    return isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    several = [each for keyword in ("anyOf", "oneOf") for each in parts(schema.get(keyword))]
    either = any(isinstance(each, Mapping) and each.get("type") == "null" for each in several)
    return (either or (isinstance(kinds, list) and "null" in kinds)) and None in schema.get("enum", (None,))


def _description(schema: Any) -> str:
    """Return the description in a schema; empty without one."""
    found = schema.get("description") if isinstance(schema, Mapping) else None
    return found if isinstance(found, str) else ""


def _names(description: str, name: str) -> bool:
    """Return whether a description contains the name of a field."""
    spaced = re.escape(name).replace("_", "[ _]")
    return len(name) >= _NAMED and re.search(rf"(?<![\w]){spaced}(?![\w])", description, re.IGNORECASE) is not None


def _all(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all objects within it."""
    level = [schema]
    while level:
        yield from (each for each in level if isinstance(each, Mapping))
        level = [part for each in level for part in parts(each)]
