"""``stretto ask --schema``: a record that fits a schema, for pipes."""

import json

import pytest

TOWN = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "inhabitants": {"type": "integer"}},
    "required": ["name", "inhabitants"],
    "additionalProperties": False,
}
VELL = {"name": "Vell ü", "inhabitants": 8200}


@pytest.fixture
def schema(tmp_path):
    file = tmp_path / "town.json"
    file.write_text(json.dumps(TOWN))
    return str(file)


@pytest.mark.parametrize("written", [json.dumps(VELL), f"Here it is:\n```json\n{json.dumps(VELL)}\n```\n"])
def test_the_record_is_printed_as_json_and_nothing_else(stretto, schema, written):
    result = stretto("ask", "Describe Vell.", "--schema", schema, script=written)
    assert json.loads(result.stdout) == VELL
    assert "ü" in result.stdout
    assert result.exit_code == 0


def test_a_record_with_long_fields_is_written_field_by_field(stretto, tmp_path):
    long = {"type": "string", "description": "Two paragraphs"}
    file = tmp_path / "page.json"
    names = ["history", "sights", "food"]
    properties = {"name": {"type": "string"}, **dict.fromkeys(names, long)}
    file.write_text(json.dumps({"type": "object", "properties": properties, "required": [*properties]}))
    texts = {name: f"About its {name}." for name in names}
    script = {f"only the field `{name}`": json.dumps({name: text}) for name, text in texts.items()}
    first = json.dumps({"name": "Vell", "history": texts["history"]})
    script["only `outline`"] = json.dumps({"outline": {"sights": "The pier.", "food": "Fish."}})
    result = stretto(
        "ask", "Describe Vell.", "--schema", str(file), "-s", "fields", script={"only these fields": first, **script}
    )
    assert json.loads(result.stdout) == {"name": "Vell"} | texts
    assert "4 calls" in result.stderr


def test_the_whole_answer_and_its_events_are_printed_as_they_are_without_a_schema(stretto, schema):
    whole = stretto("ask", "Describe Vell.", "--schema", schema, "--json", script=json.dumps(VELL))
    assert json.loads(json.loads(whole.stdout)["text"]) == VELL
    events = stretto("ask", "Describe Vell.", "--schema", schema, "--events", script=json.dumps(VELL))
    assert [json.loads(line)["type"] for line in events.stdout.splitlines()][-1] == "answer_finished"


def test_the_record_goes_to_a_file_too(stretto, schema, tmp_path):
    out = tmp_path / "vell.json"
    stretto("ask", "Describe Vell.", "--schema", schema, "--out", str(out), script=json.dumps(VELL))
    assert json.loads(out.read_text(encoding="utf-8")) == VELL


@pytest.mark.parametrize(("written", "printed"), [('{"name": "Vell"}', {"name": "Vell"}), ("I do not know.", None)])
def test_an_answer_that_does_not_fit_says_so_and_prints_no_other_text(stretto, schema, written, printed):
    result = stretto("ask", "Describe Vell.", "--schema", schema, script=written)
    assert result.exit_code == 3
    assert (json.loads(result.stdout) if result.stdout else None) == printed
    assert "does not fit" in result.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file or directory"),
        ("{", "it is no JSON"),
        ("[]", "it holds no JSON schema"),
        ('"a*"', "it holds no JSON schema"),
        ('{"type": "thing"}', "is no type of JSON"),
        ('{"type": "object", "properties": {"a": {"$ref": "#/none"}}}', "a $ref leads to '/none'"),
        ("\udcff", "it is no JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_one_clear_error(stretto, tmp_path, text, says):
    file = tmp_path / "schema.json"
    if text is not None:
        file.write_bytes(text.encode(errors="surrogateescape"))
    result = stretto("ask", "Describe Vell.", "--schema", str(file))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert f"--schema '{file}' cannot be used: " in result.stderr
    assert says in result.stderr
