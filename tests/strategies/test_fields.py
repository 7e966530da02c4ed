"""Records that are written field by field."""

import json
from datetime import date
from typing import Annotated, Literal

import anyio
import pytest
from pydantic import AfterValidator, BaseModel, Field, model_validator
from streaming import streamed, text_of

from stretto import AsyncStretto, Budget
from stretto.backends.base import Capabilities
from stretto.display.rows import label_of
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

QUESTION = "Write a report about bicycles."
HELD = Capabilities(json_schema=True)


class Chapter(BaseModel):
    title: str
    body: str = Field(description="Two paragraphs")


class Report(BaseModel):
    title: str
    kind: Literal["study", "essay"]
    when: date
    summary: str = Field(description="One paragraph")
    findings: list[str] = Field(description="Five findings, in detail")
    chapters: list[Chapter]
    conclusion: str = Field(description="What follows from the findings, in detail")


def value(schema, whole, name="value", *, items=2):
    """A value that fits, whose texts tell the field."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    match schema.get("type"):
        case "object":
            return {key: value(each, whole, key, items=items) for key, each in schema.get("properties", {}).items()}
        case "array":
            return [value(schema["items"], whole, f"{name} {number}", items=items) for number in range(items)]
        case "integer" | "number":
            return 3
        case "boolean":
            return True
        case _:
            return "2026-01-02" if schema.get("format") == "date" else f'The {name},\nin "words" and ü.'


def obliging(prompt):
    return json.dumps(value(prompt.response_schema, prompt.response_schema))


def short_only(prompt):
    """The short fields without the long text that may stand behind them, which gets a call of its own then."""
    return json.dumps({name: each for name, each in json.loads(obliging(prompt)).items() if name != "summary"})


SHORT = '{"title": "Bicycles", "kind": "study", "when": "2026-01-02", "chapters": [{"title": "One"}], '


def writer(first=(), then=obliging, capabilities=HELD):
    """A backend that fills in what it is asked for; ``first``: replies by what the prompt says."""
    rules = dict(first)
    if any("`summary`" in words for words in rules):
        rules.setdefault("only these fields now", short_only)

    def reply(prompt):
        said = prompt.messages[-1].content
        found = next((each for words, each in rules.items() if words in said), then)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found(prompt) if callable(found) else found

    return ScriptedBackend(reply, capabilities=capabilities)


async def ask(backend, schema=Report, question=QUESTION, **options):
    return await streamed(backend, question, **{"response_format": schema, "strategy": "fields"} | options)


async def test_short_fields_come_first_and_long_ones_side_by_side_in_the_order_of_the_schema():
    backend = writer()
    answer, events = await ask(backend)
    assert list(json.loads(answer.text)) == list(Report.model_fields)
    assert answer.parsed == Report.model_validate_json(answer.text)
    assert answer.parsed.summary == 'The summary,\nin "words" and ü.'
    assert (answer.strategy, answer.finish_reason, answer.warnings) == ("fields", "stop", ())
    first = backend.calls[0][0].response_schema
    assert list(first["properties"]) == ["title", "kind", "when", "chapters", "summary"]
    assert list(first["properties"]["chapters"]["items"]["properties"]) == ["title"]
    assert [branch.title for branch in answer.branches] == [
        *("", "", "findings", "chapters[0]", "chapters[1]", "conclusion"),
    ]
    assert [label_of(branch) for branch in answer.branches][:3] == ["fields", "outline", "findings"]
    kinds = [event.kind for event in events if event.type == "branch_started"]
    assert kinds == ["fields", "terms", "field", "element", "element", "field"]


async def test_every_call_sees_all_fields_and_the_values_that_are_there():
    backend = writer()
    await ask(backend)
    for prompt, _ in backend.calls:
        assert "`conclusion`: What follows from the findings, in detail" in text_of(prompt)
    for prompt, _ in backend.calls[1:]:
        assert '"kind": "study"' in text_of(prompt)
    element = next(prompt for prompt, _ in backend.calls if "element 2 of `chapters`" in text_of(prompt))
    assert list(element.response_schema["properties"]) == ["body"]


class Keeper(BaseModel):
    name: str
    outline: str = Field(description="One paragraph")
    past: str = Field(description="Two paragraphs")
    secret: str = Field(description="One paragraph")


DECIDE = "only `outline_` now"
THINKS = Capabilities(json_schema=True, reasoning=True)
LINES = {"past": "born in Brest", "secret": "the lamp was out on 3 May"}
LEAD = "He is tall, and has kept the light since 1902. " * 20


@pytest.mark.parametrize(
    "written",
    [LINES, {"past": "born in Brest"}, "none", None],
    ids=["whole", "a line is missing", "no object", "none"],
)
@pytest.mark.parametrize("way", ["beside", "careful", "thinks"])
async def test_what_the_long_fields_will_tell_is_decided_once_and_every_writer_is_told(written, way):
    whole = written == LINES
    if way == "beside":
        agreed = {}
        rules = {DECIDE: "none" if written is None else json.dumps({"outline_": written})}
    else:
        agreed = {} if written is None else {"outline_": {"outline": "tall"} | written if whole else written}
        rules = {}
    first = {"name": "Jean"} | agreed | {"outline": LEAD}
    backend = writer(
        {"only these fields now": json.dumps(first)} | rules, capabilities=THINKS if way == "thinks" else HELD
    )
    answer, _ = await ask(backend, Keeper, preference="careful" if way == "careful" else "balanced")
    assert list(json.loads(answer.text)) == list(Keeper.model_fields)
    assert (answer.parsed.outline, answer.warnings) == (LEAD, ())
    asked_for = backend.calls[way == "beside"][0].response_schema["properties"]["outline_"]
    assert list(asked_for["properties"]) == list(LINES) if way == "beside" else ["outline", *LINES]
    told = [text for prompt, _ in backend.calls if "only the field" in (text := text_of(prompt))]
    assert len(told) == 2
    assert all(("- `secret`: the lamp was out on 3 May" in each) == whole for each in told)
    assert all(("The text of `outline` has begun" in each) == (way == "beside") for each in told)


async def test_the_first_long_text_is_read_while_the_lines_for_the_others_are_decided():
    held = anyio.Event()
    lines = Reply(json.dumps({"outline_": LINES}), hold=held)
    backend = writer({"only these fields now": json.dumps({"name": "Jean", "outline": LEAD}), DECIDE: lines})
    async with (
        AsyncStretto(backend) as stretto,
        stretto.stream(QUESTION, response_format=Keeper, strategy="fields") as stream,
    ):
        said = ""
        async for text in stream.text():
            said += text
            if LEAD in said and not held.is_set():
                assert len(backend.calls) == 2
                held.set()
    assert Keeper.model_validate_json(said).outline == LEAD
    assert len(backend.calls) == 4


@pytest.mark.parametrize(
    "lead", [LEAD, 'Née "à Brest", \n le 3 mai 😀.' * 9, "Short."], ids=["long", "escapes", "short"]
)
async def test_what_others_read_of_the_first_long_text_does_not_depend_on_how_it_came(lead):
    prompts = set()
    for size in (1, 7, 5_000):
        text = json.dumps({"name": "Jean", "outline": lead})
        first = Reply(chunks=[text[at : at + size] for at in range(0, len(text), size)])
        backend = writer({"only these fields now": first, DECIDE: json.dumps({"outline_": LINES})})
        await ask(backend, Keeper)
        prompts.add(tuple(text_of(prompt) for prompt, _ in backend.calls[2:]))
    (told,) = prompts
    assert all(json.dumps(lead[:160], ensure_ascii=False) in each for each in told)


@pytest.mark.parametrize("reply", [Reply(fault=ServerFailedError("down")), '{"outline_": {"past": "'])
async def test_without_lines_the_record_is_whole(reply):
    answer, _ = await ask(writer({DECIDE: reply}), Keeper)
    assert list(json.loads(answer.text)) == list(Keeper.model_fields)
    assert (answer.strategy, answer.parsed.name) == ("fields", 'The name,\nin "words" and ü.')


@pytest.mark.parametrize(("bound", "at"), [("_WAITING", 0.001), ("LONGEST_WAIT_S", 0.03)])
async def test_fields_do_not_wait_for_lines_that_do_not_come(monkeypatch, bound, at):
    monkeypatch.setattr(f"stretto.strategies.fields.record_run.{bound}", at)
    rules = {"only these fields now": json.dumps({"name": "Jean", "outline": LEAD})}
    backend = writer(rules | {DECIDE: Reply(hold=anyio.Event())})
    answer, _ = await ask(backend, Keeper, deadline_s=30)
    assert (list(json.loads(answer.text)), answer.warnings) == (list(Keeper.model_fields), ())
    assert [branch.discarded for branch in answer.branches] == [False, True, False, False]
    assert len({prompt.prefix for prompt, _ in backend.calls if "only the field" in text_of(prompt)}) == 1


async def test_lines_are_waited_for_in_a_queue_in_which_the_first_call_waited_too(monkeypatch):
    monkeypatch.setattr("stretto.strategies.fields.record_run.LONGEST_WAIT_S", 0.0)
    monkeypatch.setattr("stretto.strategies.fields.record_run._QUEUES", 1e9)
    queued, late = anyio.Event(), anyio.Event()
    first = Reply(json.dumps({"name": "Jean", "outline": LEAD}), hold=queued)
    lines = Reply(json.dumps({"outline_": LINES}), hold=late)
    backend = writer({"only these fields now": first, DECIDE: lines})
    asked = {"response_format": Keeper, "strategy": "fields"}
    async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, **asked) as stream:
        async for event in stream:
            if event.type == "branch_started":
                queued.set()
            if event.type == "branch_finished" and event.branch.kind == "fields":
                late.set()
    told = [text for prompt, _ in backend.calls if "only the field" in (text := text_of(prompt))]
    assert len(told) == 2
    assert all("the lamp was out on 3 May" in each for each in told)


async def test_fields_do_not_wait_for_a_first_long_text_that_stalls(monkeypatch):
    monkeypatch.setattr("stretto.strategies.fields.record_run._WAITING", 0.001)
    first = Reply(chunks=['{"name": "Jean", "outline": "He is', ' tall."}'], chunk_delay_s=1_000)
    backend = writer({"only these fields now": first, DECIDE: json.dumps({"outline_": LINES})})
    asked, done = {"response_format": Keeper, "strategy": "fields", "deadline_s": 30}, 0
    async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, **asked) as stream:
        async for event in stream:
            done += event.type == "branch_finished" and event.branch.kind == "field"
            if done == 2:
                break
    told = [text for prompt, _ in backend.calls if "only the field" in (text := text_of(prompt))]
    assert len(told) == 2
    assert all('counts: "He is"' in each for each in told)


@pytest.mark.parametrize(
    "first",
    [['{"name": "Jean"}'], ['{"name": "Jean", "outline": 7}'], ['{"name": 7}', '{"name": "Jean"}']],
    ids=["it is left out", "it does not fit", "second try"],
)
async def test_no_call_decides_on_lines_where_the_first_long_text_is_not_written_yet(first):
    backend = writer({"only these fields now": first})
    answer, _ = await ask(backend, Keeper)
    assert (list(json.loads(answer.text)), answer.warnings) == (list(Keeper.model_fields), ())
    assert not any("being written already" in text_of(prompt) for prompt, _ in backend.calls)


async def test_the_last_call_of_a_budget_is_kept_for_a_second_try():
    backend = writer({"only the field `past`": ["{}", obliging]})
    answer, _ = await ask(backend, Keeper, budget=Budget(max_calls=4))
    assert list(json.loads(answer.text)) == list(Keeper.model_fields)
    assert len(backend.calls) == 4


async def test_no_call_decides_on_lines_where_the_budget_has_none_left_for_it():
    backend = writer()
    answer, _ = await ask(backend, Keeper, budget=Budget(max_calls=3))
    assert list(json.loads(answer.text)) == list(Keeper.model_fields)
    assert not any(DECIDE in text_of(prompt) for prompt, _ in backend.calls)


@pytest.mark.parametrize("preference", ["balanced", "careful", "fastest"])
async def test_the_forecast_counts_the_calls_that_are_made(preference):
    backend = writer()
    async with AsyncStretto(backend) as stretto:
        asked = {"response_format": Keeper, "strategy": "fields", "preference": preference}
        route = await stretto.route(QUESTION, **asked)
        await stretto.ask(QUESTION, **asked)
    assert route.forecast["fields"].calls == len(backend.calls) == 3 + (preference == "balanced")


@pytest.mark.parametrize(
    ("limits", "agreed"),
    [
        ({"max_tokens": 20_000, "part_tokens": 4_000}, True),
        ({"max_tokens": 20_000, "preference": "careful"}, True),
        ({"max_tokens": 800}, False),
        ({"preference": "fastest"}, False),
        ({"part_tokens": 200}, False),
        ({"budget": Budget(max_tokens_total=50_000)}, False),
    ],
)
async def test_where_tokens_or_time_are_short_nothing_is_agreed_on(limits, agreed):
    backend = writer()
    answer, _ = await ask(backend, Keeper, **limits)
    assert any("outline_" in prompt.response_schema["properties"] for prompt, _ in backend.calls) == agreed
    assert (answer.strategy, answer.warnings) == ("fields", ())


async def test_what_is_agreed_on_is_no_field_of_the_partial_value():
    schema = Keeper.model_json_schema()
    async with (
        AsyncStretto(writer()) as stretto,
        stretto.stream(QUESTION, response_format=schema, strategy="fields") as stream,
    ):
        seen = [set(value) async for value in stream.partial()]
    assert set().union(*seen) == set(Keeper.model_fields)


async def test_the_long_calls_share_their_beginning():
    backend = writer()
    await ask(backend)
    beginnings = {prompt.prefix for prompt, _ in backend.calls[2:]}
    assert len(beginnings) == 1
    assert "Filled in already" in beginnings.pop()


class Review(BaseModel):
    score: int
    verdict: str = Field(description="A paragraph", json_schema_extra={"after": ["risks"]})
    risks: str = Field(description="What may go wrong, in detail")
    history: str = Field(description="How it began, in detail")


async def test_a_field_waits_for_those_it_needs_and_is_told_their_text():
    backend = writer()
    answer, _ = await ask(backend, Review)
    assert "`risks`, on which it builds" in text_of(backend.calls[-1][0])
    assert "after" not in json.dumps(backend.calls[-1][0].response_schema)
    assert list(json.loads(answer.text)) == ["score", "verdict", "risks", "history"]
    named = writer()
    await ask(named)
    assert "`findings`, on which it builds" in text_of(named.calls[-1][0])


async def test_text_is_shown_while_it_comes():
    held = anyio.Event()
    begun = Reply(chunks=['{"summary": "It', " begins\\n", 'well."}'])
    backend = writer(
        {
            "only the field `summary`": begun,
            "only the field `findings`": lambda prompt: Reply(obliging(prompt), hold=held),
        }
    )
    async with (
        AsyncStretto(backend) as stretto,
        stretto.stream(QUESTION, response_format=Report, strategy="fields") as stream,
    ):
        said = ""
        async for text in stream.text():
            said += text
            if said.endswith(' begins\\nwell."'):
                held.set()
        assert json.loads(said)["summary"] == "It begins\nwell."


async def test_the_first_long_text_streams_behind_the_short_fields_while_the_others_are_written():
    begun = Reply(chunks=[SHORT, '"summary": "It', *[" begins"] * 90, '."}'])
    answer, events = await ask(writer({"only these fields now": begun}))
    assert answer.parsed.summary == "It" + " begins" * 90 + "."
    assert answer.parsed.title == "Bicycles"
    ids = [(event.type, event.branch_id) for event in events if event.type in ("branch_started", "branch_delta")]
    last = max(place for place, each in enumerate(ids) if each == ("branch_delta", "fields"))
    assert ids.index(("branch_started", "field-findings")) < last
    assert "summary" not in [branch.title for branch in answer.branches]
    texts = [event.text for event in events if event.type == "text_delta"]
    assert any(text.endswith('"It') for text in texts)
    assert answer.warnings == ()


@pytest.mark.parametrize(
    ("reply", "summary"),
    [
        (SHORT + '"summary": 7}', 'The summary,\nin "words" and ü.'),
        (SHORT + '"summary": "It breaks', "It breaks off."),
        (SHORT + '"other": 1, "summary": "It is there."}', "It is there."),
        ('{"summary": "It is first.", ' + SHORT[1:-2] + "}", "It is first."),
        ('{"title": "\\"summary\\": \\"no\\"", ' + SHORT[22:] + '"summary": "It is there."}', "It is there."),
    ],
    ids=["does not fit", "breaks off", "another field", "first", "a name in a text"],
)
async def test_a_first_long_text_of_any_kind_becomes_a_valid_record(reply, summary):
    broken = ServerFailedError("down") if reply.endswith("breaks") else None
    first = Reply(chunks=[reply[at : at + 9] for at in range(0, len(reply), 9)], fault=broken, fault_after=99)
    backend = writer({"only these fields now": first, "broke off": '{"summary": " off."}'})
    answer, _ = await ask(backend)
    assert answer.parsed.summary == summary
    assert list(json.loads(answer.text)) == list(Report.model_fields)


async def test_a_value_that_does_not_fit_is_asked_for_once_more_with_what_was_wrong():
    backend = writer({"only the field `findings`": ['{"findings": "none"}', obliging]})
    answer, _ = await ask(backend)
    assert len(answer.parsed.findings) == 2
    assert answer.warnings == ()
    again = next(text_of(prompt) for prompt, _ in backend.calls if "answered before" in text_of(prompt))
    assert 'findings: "none" is not of type "array"' in again
    assert answer.usage.discarded_tokens > 0


async def test_a_value_without_its_object_and_one_in_a_fence_are_understood():
    backend = writer(
        {"only the field `findings`": '["One.", "Two."]', "only the field `summary`": "```\n" + '{"summary": "S."}'}
    )
    answer, _ = await ask(backend)
    assert (answer.parsed.findings, answer.parsed.summary) == (["One.", "Two."], "S.")


class Loose(BaseModel):
    title: str
    body: str = Field(description="Two paragraphs")
    remarks: list[str] | None = Field(description="Remarks, in detail")
    history: str = Field(description="Two paragraphs")


@pytest.mark.parametrize("reply", ["no", '{"remarks": 3}', Reply(fault=ServerFailedError("down"))])
async def test_what_cannot_be_had_is_null_where_the_schema_allows_it_and_told(reply):
    answer, _ = await ask(writer({"only the field `remarks`": reply}), Loose)
    assert answer.parsed.remarks is None
    assert answer.parsed.history
    assert any("remarks" in warning for warning in answer.warnings)


@pytest.mark.parametrize("reply", ["no", Reply(fault=ServerFailedError("down"))])
async def test_what_cannot_be_had_and_must_be_there_is_left_out_and_told(reply):
    answer, _ = await ask(writer({"only the field `findings`": reply}))
    assert "findings" not in json.loads(answer.text)
    assert json.loads(answer.text)["conclusion"]
    assert answer.parsed is None
    assert any("findings" in warning for warning in answer.warnings)


async def test_a_required_value_that_fails_twice_is_asked_for_with_all_others_before_it():
    backend = writer({"The record so far": obliging, "only the field `findings`": "no"})
    answer, _ = await ask(backend)
    assert answer.parsed == Report.model_validate_json(answer.text)
    assert len(answer.parsed.findings) == 2
    assert answer.warnings == ()
    told = [text_of(prompt) for prompt, _ in backend.calls]
    (again,) = [place for place, each in enumerate(told) if "The record so far" in each]
    assert '"chapters": [{"title": ' in told[again]
    assert "The summary" in told[again]
    assert "answered before: no" in told[again]
    assert "`findings`, on which it builds" in told[again + 1]  # the conclusion has waited for it


async def test_several_that_fail_twice_are_asked_for_in_one_call():
    fails = {"only the field `findings`": "no", "element 2 of `chapters`": '{"body": 7}'}
    backend = writer({"The record so far": obliging} | fails)
    answer, _ = await ask(backend)
    assert answer.parsed == Report.model_validate_json(answer.text)
    assert (len(answer.parsed.findings), len(answer.parsed.chapters)) == (2, 2)
    (again,) = [prompt for prompt, _ in backend.calls if "The record so far" in text_of(prompt)]
    assert list(again.response_schema["properties"]) == ["findings", "chapters[1]"]
    assert answer.warnings == ()


async def test_of_several_that_are_asked_for_a_last_time_each_counts_by_itself():
    last = json.dumps({"findings": ["One."], "chapters[1]": {"body": 7}})
    fails = {"only the field `findings`": "no", "element 2 of `chapters`": '{"body": 7}'}
    answer, _ = await ask(writer({"The record so far": last} | fails))
    found = json.loads(answer.text)
    assert (found["findings"], "body" in found["chapters"][1]) == (["One."], False)
    assert ["chapters[1]" in warning for warning in answer.warnings if warning.code == "format"][:1] == [True]


NAMES = ("first", "second", "third")
LETTER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title", *NAMES],
    "properties": {"title": {"type": "string", "maxLength": 20}}
    | {name: {"type": "string", "minLength": 30, "maxLength": 3_000, "description": "400 words"} for name in NAMES},
}


@pytest.mark.parametrize(("words", "whole"), [(60, 3), (200, 1)])
async def test_the_last_call_has_room_for_all_it_is_asked_for_and_of_a_cut_one_nothing_half_is_taken(words, whole):
    def fails_first(prompt):
        names = list(prompt.response_schema["properties"])
        if "The record so far" in text_of(prompt):
            return json.dumps(dict.fromkeys(names, "word " * words + "END"))
        return json.dumps({name: "T" if name == "title" else 5 for name in names})

    backend = ScriptedBackend(fails_first)
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Write it.", strategy="fields", response_format=LETTER, part_tokens=120)
    found = json.loads(answer.text)
    assert backend.calls[-1][1].max_tokens == 3 * 120
    assert [name for name in NAMES if name in found] == [*NAMES[:whole]]
    assert all(found[name].endswith("END") for name in NAMES[:whole])
    assert any(warning.code == "part_cut" for warning in answer.warnings) == (whole < 3)


async def test_a_budget_of_calls_leaves_out_the_last_try():
    backend = writer({"only the field `past`": '{"past": 7}'})
    answer, _ = await ask(backend, Keeper, budget=Budget(max_calls=4))
    assert len(backend.calls) == 4
    assert list(json.loads(answer.text)) == ["name", "outline", "secret"]


async def test_a_text_that_breaks_off_in_front_of_the_reader_is_gone_on_with():
    broken = Reply(chunks=['{"summary": "Bicycles are', " old \\u00"], fault=ServerFailedError("down"), fault_after=2)
    rest = '{"summary": "are old machines."}'
    backend = writer({"broke off": rest, "only the field `summary`": broken})
    answer, _ = await ask(backend)
    assert answer.parsed.summary in ("Bicycles are old machines.", "Bicycles are old are old machines.")
    assert answer.finish_reason == "stop"


async def test_short_fields_that_fail_lead_to_an_answer_in_one_piece():
    backend = writer({"only these fields now": "no"})
    answer, _ = await ask(backend)
    assert answer.strategy == "direct"
    assert answer.parsed.title
    assert answer.warnings[0].code == "strategy"


def no_cats(text):
    if "cat" in text:
        raise ValueError("no cats")
    return text


class Checked(BaseModel):
    title: str
    body: Annotated[str, AfterValidator(no_cats)] = Field(description="Two paragraphs")
    history: str = Field(description="Two paragraphs")


async def test_what_a_validator_refuses_is_asked_for_again_before_anything_is_shown():
    backend = writer({"only the field `body`": ['{"body": "A cat."}', '{"body": "A dog."}']})
    answer, events = await ask(backend, Checked)
    assert answer.parsed.body == "A dog."
    assert answer.warnings == ()
    assert "no cats" in text_of(backend.calls[-1][0])
    assert sum(event.type == "text_delta" for event in events) == 1


class Diary(BaseModel):
    begun: date
    about: str = Field(description="Two paragraphs")
    days: list[date] | None = Field(description="Fifty days, in detail")
    chapters: list[Chapter]


async def test_a_form_that_only_the_class_knows_is_asked_for_again():
    wrong = {
        "only these fields": '{"begun": "next week", "chapters": []}',
        "only the field `days`": '{"days": ["soon"]}',
    }
    backend = writer({words: [text, obliging] for words, text in wrong.items()})
    answer, _ = await ask(backend, Diary)
    assert (answer.strategy, answer.warnings) == ("fields", ())
    assert (answer.parsed.begun, answer.parsed.days) == (date(2026, 1, 2), [date(2026, 1, 2)] * 2)
    told = [text_of(prompt) for prompt, _ in backend.calls if "cannot be used" in text_of(prompt)]
    assert ["begun: Input should be a valid date" in each for each in told] == [True, False]
    assert "days[0]: Input should be a valid date" in told[1]


async def test_a_form_that_only_the_class_knows_and_that_stays_wrong_does_not_lose_the_record():
    answer, _ = await ask(writer({"only the field `days`": '{"days": ["soon"]}'}), Diary)
    assert answer.parsed.days is None
    assert [(w.code, "days[0]" in w) for w in answer.warnings] == [("format", True)]


class Together(BaseModel):
    title: str
    body: str = Field(description="Two paragraphs")
    history: str = Field(description="Two paragraphs")

    @model_validator(mode="after")
    def _differ(self):
        if self.body == self.history:
            raise ValueError("the same twice")
        return self


async def test_what_a_validator_of_the_whole_refuses_is_asked_for_as_a_whole():
    whole = json.dumps({"title": "T", "body": "B", "history": "H"})
    backend = writer(
        {"the field `body`": '{"body": "X"}', "the field `history`": '{"history": "X"}', "only these": obliging},
        then=whole,
    )
    answer, _ = await ask(backend, Together)
    assert (answer.strategy, answer.parsed.history) == ("direct", "H")
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_a_budget_of_calls_is_kept():
    backend = writer()
    answer, _ = await ask(backend, budget=Budget(max_calls=3))
    assert len(backend.calls) == 1
    assert (answer.strategy, answer.warnings[0].code) == ("direct", "strategy")


@pytest.mark.leaping
async def test_a_deadline_leaves_valid_json_with_what_is_there():
    backend = writer({"only the field `conclusion`": Reply("{}", hold=anyio.Event())})
    answer, _ = await ask(backend, deadline_s=1.0)
    assert json.loads(answer.text)["summary"]
    assert answer.finish_reason == "deadline"


async def test_two_records_at_once_do_not_mix():
    backend = writer()
    async with AsyncStretto(backend) as stretto, anyio.create_task_group() as tasks:
        found = {}

        async def one(schema):
            found[schema] = await stretto.ask(QUESTION, response_format=schema, strategy="fields")

        for schema in (Report, Review, Loose):
            tasks.start_soon(one, schema)
    assert all(isinstance(found[schema].parsed, schema) for schema in found)


async def test_a_reader_who_leaves_ends_every_call():
    backend = writer({"only the field": lambda prompt: Reply(obliging(prompt), hold=anyio.Event())})
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(QUESTION, response_format=Report, strategy="fields") as stream:
            async for event in stream:
                if event.type == "text_delta":
                    break
        assert backend.running == 0


HOSTILE = [
    "",
    "{",
    '{"summary": ',
    '{"summary": "\\',
    '{"summary": "\\ud83d"}',
    '{"summary": "a\x00b"}',
    '"',
    "]",
    "\u2028",
    '{"summary": {}}',
]


@pytest.mark.parametrize("said", HOSTILE)
async def test_hostile_lines_leave_the_whole_record(said):
    answer, _ = await ask(writer({DECIDE: Reply(chunks=list(said) or [""])}), Keeper)
    assert (answer.strategy, list(json.loads(answer.text))) == ("fields", list(Keeper.model_fields))


@pytest.mark.parametrize("said", HOSTILE)
async def test_hostile_texts_leave_valid_json(said):
    answer, _ = await ask(writer({"only the field `summary`": Reply(chunks=list(said) or [""])}))
    found = json.loads(answer.text)
    assert found["conclusion"]
    if "summary" not in found:
        assert any("summary" in warning for warning in answer.warnings)


LONG = {"type": "string", "description": "Three paragraphs"}


def record(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


STRAIGHT = {
    "a union": ({"anyOf": [record(a=LONG, b=LONG), record(c=LONG, d=LONG)]}, None),
    "fields held together": ({**record(a=LONG, b=LONG, c=LONG), "oneOf": [{"required": ["a"]}]}, "oneOf"),
    "short fields": (record(a={"type": "integer"}, b={"type": "boolean"}), "about 18 tokens"),
    "one long field": (record(a=LONG, b={"type": "integer"}, c={**LONG, "description": "800 words"}), None),
    "reasoning first": (record(reasoning=LONG, summary=LONG, answer=LONG), "'reasoning' comes before"),
    "its own kind": (
        {
            "$ref": "#/$defs/N",
            "$defs": {"N": record(a=LONG, b=LONG, c={"type": "array", "items": {"$ref": "#/$defs/N"}})},
        },
        "records of its own kind",
    ),
    "a circle": (record(a={**LONG, "after": ["b"]}, b={**LONG, "after": ["a"]}), "needs fields that need it"),
    "an unknown field": (record(a={**LONG, "after": ["x"]}, b=LONG, c=LONG), "names 'x'"),
}


@pytest.mark.parametrize("name", [name for name, (_, why) in STRAIGHT.items() if why])
async def test_what_cannot_be_taken_apart_is_written_in_one_piece_with_a_reason(name):
    schema, why = STRAIGHT[name]
    async with AsyncStretto(writer()) as stretto:
        route = await stretto.route(QUESTION, response_format=schema)
    assert (route.strategy, route.code) == ("direct", "shape")
    assert why in route.reason


async def test_the_router_takes_it_where_it_pays_and_says_so():
    async with AsyncStretto(writer()) as stretto:
        route = await stretto.route(QUESTION, response_format=Report, preference="fastest")
        answer = await stretto.ask(QUESTION, response_format=Report, preference="fastest")
        balanced = await stretto.route(QUESTION, response_format=Report)
    assert balanced.strategy == "direct"
    assert balanced.code == "readers"
    assert route.strategy == answer.strategy == "fields"
    assert (route.code, "(summary, findings, chapters," in route.reason) == ("suits", True)
    assert route.forecast["fields"].seconds < 0.5 * route.forecast["direct"].seconds


async def test_records_of_a_schema_teach_how_long_their_fields_are():
    long = " ".join(["word"] * 2_000)
    said = {"body": "Some words. " * 20, "history": long}
    first = json.dumps({"title": "Bicycles", "body": said["body"]})
    backend = writer({"only these fields now": first, "only the field `history`": json.dumps(said)})
    async with AsyncStretto(backend) as stretto:
        before = await stretto.route(QUESTION, response_format=Loose, strategy="fields")
        for _ in range(3):
            await stretto.ask(QUESTION, response_format=Loose, strategy="fields")
        after = await stretto.route(QUESTION, response_format=Loose, strategy="fields")
    assert after.forecast["fields"].written > 2_000 > before.forecast["fields"].written
    assert after.forecast["direct"].written > 2_000
