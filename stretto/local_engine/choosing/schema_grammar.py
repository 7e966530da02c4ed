"""Grammars of JSON schemas. What llguidance cannot enforce is left out and reported, to be checked in the answer.

Leaving a keyword out only allows more, so no answer that fits the schema is lost. Some keywords are rewritten in terms
of others that llguidance knows, so that the answer fits on the first try.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from stretto.foundation.schema_graph import endless_parts, pointed_at

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

# Any white space between two values is valid JSON, and a model that has lost its way writes nothing else. So only the
# spaces that `json.dumps` writes are allowed, unless the schema says otherwise. With "lenient", a keyword that
# llguidance does not know becomes a warning; a oneOf whose choices can overlap becomes an anyOf.
_OPTIONS = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
    "coerce_one_of": True,
}
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_IN_PLACE = {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas"}
_SUBSCHEMA = {"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames"} | {
    "additionalItems", "unevaluatedItems", "unevaluatedProperties", "contentSchema"
}  # fmt: skip
_SUBSCHEMAS = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_NAMED_SUBSCHEMAS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_ASSERTS_NOTHING = {"$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
_SAYS_NOTHING_OF_NAMES = {"type", "title", "description", "$comment", "examples", "default"}
_UNIMPLEMENTED = re.compile(r"Unimplemented keys: (\[.*\])")
_DIALECT = re.compile(r"https?://json-schema\.org/(?:draft-0[4-7]|draft/20(?:19-09|20-12))/schema#?")
_IMPOSSIBLE = re.compile("Invalid type|Resource|Pointer|Anchor|Unsatisfiable schema")
_FAULTS = frozenset({"pattern", "patternProperties", "multipleOf", "format"})
# Left out step by step until a grammar can be made of the schema. The last step allows all JSON.
_LEFT_OUT: tuple[Set[str] | None, ...] = (frozenset(), _FAULTS, _FAULTS | {"allOf", "additionalProperties"}, None)


def compile_schema(schema: Mapping[str, Any], vocabulary: LLTokenizer) -> tuple[LLMatcher, tuple[str, ...]]:
    """Return a matcher at the beginning of an answer, and the keywords that it does not enforce.

    Raises `TypeError` or `ValueError` with the cause for what is not JSON, and for a schema that no answer fits.
    """
    from llguidance import LLMatcher  # noqa: PLC0415 - only for requests that need it

    json.dumps(dict(schema))  # refuses what is not JSON, and circular references
    endless, cause = endless_parts(schema), ""
    for left_out in _LEFT_OUT:
        mending = _Mending(schema, endless, left_out or frozenset())
        text = "{}" if left_out is None else json.dumps(mending.mend(schema))
        grammar = LLMatcher.grammar_from_json_schema(text, defaults=_OPTIONS)  # type: ignore[arg-type]  # the stub has fewer
        matcher = LLMatcher(vocabulary, grammar, log_level=0)
        if matcher.is_error():
            cause = cause or brief(matcher.get_error())
            if _IMPOSSIBLE.match(cause):
                break
            continue
        probe = matcher.deep_copy()
        probe.compute_bitmask()
        if probe.is_error():  # as for {"$anchor": "a", "$ref": "#a"}
            raise ValueError(f"no answer to it can begin: {brief(probe.get_error())}")
        unheld = ["any of its keywords"] if left_out is None else mending.unheld
        return matcher, tuple(dict.fromkeys((*unheld, *_named(matcher.get_grammar_warnings()))))
    raise ValueError(cause)


def brief(message: str) -> str:
    """Return the line of a parser's message that names the error."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    wanted = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), "")
    return (wanted or (lines[0] if lines else "no cause was given")).rstrip(".")


def _named(warnings: Sequence[str]) -> list[str]:
    """Return the keywords that llguidance reports as left out; a warning of an unknown kind is returned as it is."""
    named: list[str] = []
    for warning in warnings:
        if found := _UNIMPLEMENTED.match(warning):
            named += [keyword for keyword in json.loads(found[1]) if keyword not in _ASSERTS_NOTHING]
        elif warning.startswith("oneOf"):
            named.append("oneOf")
        elif not warning.startswith("Unknown format"):  # by the specification, an annotation that demands nothing
            named.append(brief(warning))
    return named


class _Mending:
    """Rewrites a schema in keywords that llguidance knows. ``unheld``: the keywords left out while doing so."""

    def __init__(self, schema: Mapping[str, Any], endless: Set[int], left_out: Set[str]) -> None:
        self._whole, self._endless, self._left_out = schema, endless, left_out
        self.unheld: list[str] = []

    def mend(self, schema: Any, *, alone: bool = True) -> Any:
        """Return an equivalent schema, or one that allows more. Unless ``alone``, others apply to the same value."""
        if not isinstance(schema, Mapping):
            return schema
        mended = {keyword: self._value(keyword, value) for keyword, value in schema.items()}
        for keyword in _COUNTS:
            if isinstance(value := mended.get(keyword), float) and value.is_integer():
                mended[keyword] = int(value)
        if not _DIALECT.fullmatch(str(mended.get("$schema", ""))):
            mended.pop("$schema", None)
        self._unique(mended)
        self._closed(mended)
        self._names(mended)
        self._count(mended, alone=alone)
        self._leave_out(mended)
        return mended

    def _value(self, keyword: str, value: Any) -> Any:
        if keyword in _NAMED_SUBSCHEMAS and isinstance(value, Mapping):
            # A value that could not end is not begun.
            return {name: id(part) not in self._endless and self.mend(part) for name, part in value.items()}
        if keyword in _SUBSCHEMAS and isinstance(value, list | tuple):
            return [self.mend(part, alone=keyword not in _IN_PLACE) for part in value]
        return self.mend(value) if keyword in _SUBSCHEMA else value

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        """Return a schema, or the one that its local reference points to."""
        if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
            schema = pointed_at(schema["$ref"], self._whole)
        return schema if isinstance(schema, Mapping) else {}

    def _unique(self, mended: dict[str, Any]) -> None:
        """Bound a list of unique values by the number of values there are; uniqueness is checked afterwards."""
        if not mended.get("uniqueItems"):
            mended.pop("uniqueItems", None)
            return
        values = self._resolved(mended.get("items")).get("enum")
        if isinstance(values, list) and "prefixItems" not in mended:
            mended["maxItems"] = min(mended.get("maxItems", len(values)), len(values))

    def _names(self, mended: dict[str, Any]) -> None:
        """Express ``propertyNames`` as one ``patternProperties`` pattern, where nothing else constrains the names."""
        if "propertyNames" not in mended or {"patternProperties", "properties"} & mended.keys():
            return
        pattern = _pattern_of_names(self._resolved(mended["propertyNames"]))
        if pattern is not None and pattern_is_enforced(pattern):
            mended["patternProperties"] = {pattern: mended.get("additionalProperties", True)}
            mended["additionalProperties"] = False
            del mended["propertyNames"]

    def _closed(self, mended: dict[str, Any]) -> None:
        """Express ``unevaluated...: false`` as ``additionalProperties`` or ``items``, where nothing else evaluates."""
        if _IN_PLACE & mended.keys():
            return
        if mended.get("unevaluatedProperties") is False:
            del mended["unevaluatedProperties"]
            mended.setdefault("additionalProperties", False)
        if mended.get("unevaluatedItems") is False and "contains" not in mended:
            del mended["unevaluatedItems"]
            mended.setdefault("items", False)

    def _count(self, mended: dict[str, Any], *, alone: bool) -> None:
        """Leave out property counts where some properties are declared: llguidance counts only the others."""
        if alone and not (_IN_PLACE | {"properties", "required"}) & mended.keys():
            return
        least, required = mended.get("minProperties"), mended.get("required")
        if least and isinstance(required, list) and len(set(required)) >= least:
            del mended["minProperties"]
        for keyword in ("minProperties", "maxProperties"):
            if keyword in mended:
                del mended[keyword]
                self.unheld.append(keyword)

    def _leave_out(self, mended: dict[str, Any]) -> None:
        """Leave out keywords that llguidance cannot handle."""
        for keyword in sorted(self._left_out & mended.keys()):
            if keyword == "pattern" and pattern_is_enforced(mended["pattern"]):
                continue
            if keyword == "patternProperties" and _are_enforced(mended[keyword]):
                continue
            self.unheld.append(keyword)
            del mended[keyword]
            if keyword == "patternProperties":  # else additionalProperties would forbid what only the patterns allowed
                mended.pop("additionalProperties", None)


def pattern_is_enforced(pattern: Any) -> bool:
    """Return whether llguidance can enforce a regular expression: one without look-around and back references."""
    return _is_enforced({"type": "string", "pattern": pattern})


def _are_enforced(patterns: Any) -> bool:
    return _is_enforced({"type": "object", "patternProperties": dict.fromkeys(patterns, True)})


def _is_enforced(schema: Mapping[str, Any]) -> bool:
    from llguidance import LLMatcher  # noqa: PLC0415 - only for requests that need it

    failed, _ = LLMatcher.validate_grammar_with_warnings(LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    return not failed


def _pattern_of_names(names: Mapping[str, Any]) -> str | None:
    """Return one pattern that is equivalent to a schema of names; ``None`` if there is none."""
    rules = {keyword: value for keyword, value in names.items() if keyword not in _SAYS_NOTHING_OF_NAMES}
    if names.get("type", "string") != "string":
        return None
    if isinstance(pattern := rules.get("pattern"), str) and len(rules) == 1:
        return pattern
    if rules.keys() == {"enum"} and all(isinstance(name, str) for name in rules["enum"]) and rules["enum"]:
        return f"^(?:{'|'.join(map(re.escape, rules['enum']))})$"
    if rules and rules.keys() <= {"minLength", "maxLength"}:
        return rf"^[\s\S]{{{rules.get('minLength', 0)},{rules.get('maxLength', '')}}}$"
    return None
