"""Servers that refuse schemas by the rules of OpenAI's strict mode and of Anthropic's structured outputs."""

import json

REFUSED = ("allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "minLength", "maxLength", "uniqueItems")
REFUSED += ("prefixItems", "default", "contains", "minProperties", "dependentRequired", "propertyNames")
LEVELS = 10


def flaw(schema):
    """What OpenAI's strict mode has against a schema; empty where it takes it."""
    if schema.get("type") != "object":
        return "schema must be a JSON Schema of 'type: \"object\"'"
    return next(_flaws(schema, (), 0), "")


def _flaws(part, place, level):
    if level > LEVELS:
        yield f"{level} levels of nesting exceeds limit of {LEVELS}"
        return
    if "$ref" in part and len(part) > 1:
        yield f"In context={place}, $ref cannot have keywords {set(part) - {'$ref'}}"
    for name in REFUSED:
        if name in part:
            yield f"In context={place}, '{name}' is not permitted"
    if not {"type", "$ref", "anyOf"} & part.keys():
        yield f"In context={place}, schema must have a 'type' key"
    if part.get("type") == "object":
        if part.get("additionalProperties") is not False:
            yield f"In context={place}, 'additionalProperties' is required to be supplied and to be false"
        if missing := sorted(set(part.get("properties", ())) ^ set(part.get("required", ()))):
            yield f"In context={place}, 'required' is required to be supplied. Missing '{missing[0]}'"
    if part.get("format", "date") not in ("date", "date-time", "time", "uuid", "email"):
        yield f"In context={place}, '{part['format']}' is not a valid format"
    inner = [(name, each) for where in ("properties", "$defs") for name, each in part.get(where, {}).items()]
    inner += [("anyOf", each) for each in part.get("anyOf", ())]
    inner += [("items", part["items"])] if "items" in part else []
    for name, each in inner:
        yield from _flaws(each, (*place, name), level + (part.get("type") == "object" and name != "anyOf"))


def refused_by_openai(received, *, loose=False):
    """OpenAI's answer to a body with a schema that it does not take; ``loose``: it takes none of this answer at all."""
    held = (received.body.get("response_format") or {}).get("json_schema")
    if held and (loose or held["strict"]) and (found := flaw(held["schema"])):
        message = f"Invalid schema for response_format '{held['name']}': {found}."
        error = {"message": message, "type": "invalid_request_error", "param": "response_format", "code": None}
        return 400, {"error": error}
    for place, tool in enumerate(received.body.get("tools") or ()):
        function = tool["function"]
        if function.get("strict") and (found := flaw(function["parameters"])):
            message = f"Invalid schema for function '{function['name']}': {found}."
            param = f"tools[{place}].function.parameters"
            error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
            return 400, {"error": error}
    return None


def refused_by_anthropic(received):
    """Anthropic's, which knows no bounds of numbers and texts."""
    form = (received.body.get("output_config") or {}).get("format")
    written = json.dumps(form)
    for name in ("maximum", "minLength", "oneOf"):
        if f'"{name}"' in written:
            message = f"output_config.format.schema: For 'object' type, property '{name}' is not supported"
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    for tool in received.body.get("tools") or ():
        if tool.get("strict") and tool["input_schema"].get("additionalProperties") is not False:
            message = (
                "tools.0.custom.input_schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
            )
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return None
