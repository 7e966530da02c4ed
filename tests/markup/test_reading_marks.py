"""Thoughts and calls in what models write: every form, in any pieces, and whatever is broken in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.markup.forms import form_of
from stretto.markup.leaked import Leaked
from stretto.markup.reading import reader_of

PARAMETERS = {"type": "object", "properties": {"a": {"type": "boolean"}, "text": {"type": "string"}}}
TOOLS = (
    {"type": "function", "function": {"name": "not", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "now"}},
)
CALL = '{"name": "not", "arguments": {"a": true}}'
QWEN = form_of("{% if tools %}<tool_call></tool_call>{% endif %}<think></think>{% if enable_thinking %}")
CODER = form_of("{% if tools %}<tool_call><function=a></tool_call>{% endif %}")
MISTRAL = form_of("{% if tools %}[TOOL_CALLS]{% endif %}[THINK][/THINK] alphanumerics of length 9")
LLAMA = form_of("{% if tools %}<|python_tag|>{% endif %}{{ message.tool_calls }}")
GRANITE = form_of("{% if tools %}<|tool_call|>{% endif %}<think></think><response></response>")
GPT_OSS = form_of("<|start|>assistant<|channel|>analysis<|message|>")
DEEPSEEK = form_of("{{ tools }}<think></think><｜tool▁calls▁begin｜>{{ tool['function']['arguments'] + '' }}")
GEMMA_4 = form_of("{{ tools }}<|channel>thought\\n<channel|><|tool_call>call:")
FUNCTION_GEMMA = form_of("{{ tools }}<start_function_call>call:")
GLM = form_of("{{ tools }}<think></think><tool_call><arg_key>{{ enable_thinking }}")
LLAMA_3_2 = form_of("{{ tools }}[func_name1(params_name1=params_value1), func_name2(params)]")
LLAMA_3_1 = form_of("{{ tools }}<|python_tag|><function=name>")
COMMAND = form_of("{{ tools }}<|START_THINKING|><|START_ACTION|>")
NEMOTRON = form_of("{{ tools }}<think></think><TOOLCALL>[]</TOOLCALL>")
APRIEL = form_of("{{ tools }}Here are my reasoning steps:[BEGIN FINAL RESPONSE]<tool_calls>[]</tool_calls>")
LFM = form_of("{{ tools }}<think></think><|tool_call_start|><|tool_call_end|>")
FORMS = (
    *(QWEN, CODER, MISTRAL, LLAMA, GRANITE, GPT_OSS, NEMOTRON, APRIEL, LFM),
    *(DEEPSEEK, GEMMA_4, FUNCTION_GEMMA, GLM, LLAMA_3_2, LLAMA_3_1, COMMAND),
)
YES = ("not", '{"a": true}')


def heard(form, pieces, **options):
    """Text, thoughts and calls of an answer that comes in these pieces."""
    reader = reader_of(form, TOOLS, **options)
    parts = [*map(reader.feed, pieces), reader.finish()]
    calls = [tuple(call) for part in parts for call in part.calls]
    return "".join(part.text for part in parts), "".join(part.thought for part in parts), calls


def cut(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


ASKED = "Reason between <reasoning> and </reasoning>, then answer between <answer> and </answer>."


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("<reasoning>Hm.</reasoning>Oil it.", "", ("Oil it.", "Hm.")),
        ("<reasoning>Hm.</reasoning>Oil it.", ASKED, ("<reasoning>Hm.</reasoning>Oil it.", "")),
        ("<think>Hm.</think><answer>Oil it.</answer>", "", ("Oil it.", "Hm.")),
        ("<think>Hm.</think><answer>Oil it.</answer>", ASKED, ("<answer>Oil it.</answer>", "Hm.")),
        ("analysisHm.assistantfinalOil it.", "", ("Oil it.", "Hm.")),
        ("analysisHm. It never en", "", ("analysisHm. It never en", "")),
        ("analysis", "", ("analysis", "")),
        ("[THINK", "", ("[THINK", "")),
        ("  \n", "", ("  \n", "")),
        ("<|channel|>final<|message|>Oil it.", "", ("Oil it.", "")),
    ],
)
def test_an_answer_of_a_model_of_which_nothing_is_known_is_read_by_how_it_begins(text, asked, expected, size):
    reader = Leaked((), lambda mark: mark in asked)
    parts = [*map(reader.feed, cut(text, size)), reader.finish()]
    assert ("".join(part.text for part in parts), "".join(part.thought for part in parts)) == expected


def test_an_answer_of_which_nothing_is_known_streams():
    reader = Leaked()
    assert [reader.feed(text).text for text in ("An", "alysis of ", "it.")] == ["An", "alysis of ", "it."]
    assert [Leaked().feed(text).text for text in ("analysis of", "<b>", "[THIS")] == ["analysis of", "<b>", "[THIS"]


def test_an_answer_may_begin_within_a_thought():
    assert QWEN.opened_by("<|im_start|>assistant\n<think>\n")
    assert heard(QWEN, ["So.\n</thi", "nk>\n\nOil it."], opened=True) == ("Oil it.", "So.", [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1} is JSON.',
        "<tool_call>no JSON</tool_call>",
        "<tool_call> never ends",
        "a < b\n",
        '{"name": "x"}',
        '<tool_call>{"name": "not", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "not", "arguments": 3}</tool_call>',
        "<tool_call><function=not><parameter=a>true</function></tool_call>",
        "[TOOL_CALLS]not[ARGS]{",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>not<｜tool▁sep｜>{<｜tool▁call▁end｜>",
        "<|tool_call>call:not{a:<tool_call|>",
        "<start_function_call>not",
        "<tool_call>not <arg_key>a</arg_key>",
        "<function=not>{",
        "[not(a=open('x'))]",
        "[not(True)]",
        "[not(a=1) + 2]",
        "<|START_ACTION|>[1]",
        "<|tool_call|>[1]",
        "<|python_tag|>print(1)",
        "The tag <think> begins a thought.",
    ],
)
def test_what_is_no_call_and_no_thought_stays_text(form, text):
    assert heard(form, list(text)) == (text, "", [])


@pytest.mark.parametrize("form", FORMS)
def test_deep_nesting_stays_text(form):
    text = '<tool_call>{"name": "not", "arguments": ' + '{"a": ' * 3000 + "1" + "}" * 3001 + "</tool_call>"
    assert heard(form, cut(text, 500)) == (text, "", [])
    assert heard(form, ["[TOOL_CALLS]" + "[" * 3000])[1:] == ("", [])
    assert heard(form, ["[not(a=" + "[" * 3000 + "]" * 3000 + ")]"])[1:] == ("", [])


def test_a_call_of_gpt_oss_that_is_broken_stays_text():
    assert heard(GPT_OSS, ["<|channel|>commentary to=functions.no<|message|>{}"]) == ("{}", "", [])


def test_text_streams_although_there_are_tools_and_thoughts():
    reader = reader_of(QWEN, TOOLS)
    assert [reader.feed(piece).text for piece in ("One ", "two ", "three.")] == ["One", " two", " three."]


def test_calls_stream_one_after_the_other():
    reader = reader_of(QWEN, TOOLS)
    assert reader.feed(f"<tool_call>{CALL}</tool_call><tool_").calls == (YES,)


def test_a_thought_is_told_while_it_goes_on():
    reader = reader_of(QWEN)
    parts = [reader.feed(piece) for piece in ("<think>", "Hm.", "</think>", "Oil it.")]
    assert [part.thinking for part in parts] == [True, True, True, False]
    assert not any(part.thought for part in parts[:2])


def test_without_marks_there_is_nothing_to_read():
    assert reader_of(form_of("{{ messages }}")) is None
    assert reader_of(QWEN, TOOLS, constrained=True) is None


def test_an_answer_that_is_held_to_a_call_has_no_thoughts():
    assert heard(QWEN, [CALL], constrained=True, whole=True) == ("", "", [YES])


@pytest.mark.parametrize(
    "template",
    [
        "{{ tools }}<tool_calls>[<tool_call>]</tool_calls>",
        "{{ tools }}<|tool_calls_section_begin|>",
        "{{ tools }}{{ message.tool_calls }} parameters",
        "{{ messages }}",
    ],
)
def test_templates_whose_calls_are_not_read_are_known(template):
    assert form_of(template).calls is None


@pytest.mark.parametrize(
    ("template", "always"),
    [
        ("<think>{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}", True),
        ("{% if add_generation_prompt %}{% if enable_thinking is false %}<think>\n\n</think>{% endif %}", False),
        ("{% if add_generation_prompt %}{% endif %}", False),
        ("<|channel|>", True),
    ],
)
def test_models_that_always_think_are_told_by_their_template(template, always):
    assert form_of(template).always is always


WORDS = st.sampled_from(
    [
        *(
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "{",
            "}",
            '"',
            "\\",
            CALL,
            " ",
            "\n",
            "é",
            "<",
            "|",
            "[",
        ),
        *("<function=not>", "<parameter=a>", "</parameter>", "</function>", "<response>", "</response>", "now", "{}"),
        *("[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", ";", "[THINK]", "[/THINK]", "<|tool_call|>", "<|channel|>"),
        *(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "<|tool_call>",
            "call:",
        ),
        *("<tool_call|>", '<|"|>', "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "(", ")", "a=", "'"),
        *("<TOOLCALL>", "</TOOLCALL>", "<tool_calls>", "</tool_calls>", "[BEGIN FINAL RESPONSE]"),
        *("[END FINAL RESPONSE]", "<|tool_call_start|>", "<|tool_call_end|>", "now()", "'", "{'a': True}"),
        *("analysis", "<|message|>", "<|end|>", "<|start|>", " to=functions.now", "<|constrain|>"),
    ]
)


@given(st.sampled_from(FORMS), st.lists(WORDS, max_size=14), st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_what_is_read_does_not_depend_on_the_pieces(form, words, sizes, opened):
    text, pieces, at = "".join(words), [], 0
    opened = opened and form.thought is not None
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    whole = heard(form, [text], opened=opened)
    assert heard(form, pieces, opened=opened) == whole
    for name, arguments in whole[2]:
        assert name in ("not", "now")
        assert isinstance(json.loads(arguments), dict)
