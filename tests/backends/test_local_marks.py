"""Thoughts and calls of local models in the forms of known families, through the real engine.

The model says what a test wants: its layers add nothing, and the vector of each position is that of the next token. The
templates are short ones of our own, with the marks, the control tokens and the openings that the families document.
"""

import json
from contextlib import AsyncExitStack

import pytest
import torch
from model_families import LOCAL, TOOLS
from saved_models import opened
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from stretto import AsyncStretto, Message, ThoughtFinished
from stretto.extending import ModelRequest
from stretto.markup.forms import form_of

pytestmark = pytest.mark.anyio

WINDOW, WIDTH = 1024, 320
MARKS = (
    *("<|end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]"),
    *("<|channel|>", "<|message|>", "<|start|>", "<|call|>", "<|constrain|>", "<|return|>", "[THINK]", "[/THINK]"),
)
PLAIN_MARKS = {"<think>", "</think>", "<tool_call>", "</tool_call>"}  # Qwen's are no special tokens
SHOWN = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)
TEMPLATES = {
    "qwen3": SHOWN
    + '{# <tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call> #}'
    + "{% if add_generation_prompt %}[assistant]\n"
    + "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
    "hermes": SHOWN + '{# <tool_call>{"arguments": <args>, "name": <name>}</tool_call> #}[assistant]',
    "llama 3.1": SHOWN + '{# {"name": name, "parameters": dictionary of argument name and value} #}[assistant]',
    "mistral": SHOWN + "{# [TOOL_CALLS], ids with length 9 #}[/INST]",
    "magistral": SHOWN + "{# [THINK] [/THINK] [TOOL_CALLS] [ARGS] #}[/INST]",
    "smollm3": SHOWN
    + "{# <tool_call></tool_call> #}[assistant]{% if not enable_thinking %}<think>\n\n</think>{% endif %}",
    "deepseek r1": SHOWN + "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}",
    "gpt-oss": SHOWN + "{# <|channel|> #}<|start|>assistant",
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
CALL = ("weather", {"city": "Zürich", "days": 3})
GIVEN = '{"city": "Zürich", "days": 3}'
OBJECT = f'{{"name": "weather", "arguments": {GIVEN}}}'
THINK = {"chat_template_kwargs": {"enable_thinking": True}}


def save(path, template, marks=MARKS):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens([AddedToken(mark, special=mark not in PLAIN_MARKS, normalized=False) for mark in marks])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=marks[0])
    tokenizer.chat_template = template
    tokenizer.save_pretrained(path)
    config = GPT2Config(
        vocab_size=len(alphabet) + len(marks), n_positions=WINDOW, n_embd=WIDTH, n_layer=1, n_head=2,
        eos_token_id=len(alphabet), bos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.wte.weight.copy_(torch.eye(config.vocab_size, WIDTH))
        for layer in model.transformer.h:
            layer.attn.c_proj.weight.zero_()
            layer.mlp.c_proj.weight.zero_()
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def ask(tmp_path_factory):
    """Has a model of a family, or of a template, say something; returns the answer and the events on the way to it."""
    async with AsyncExitStack() as stack:
        backends = {}

        async def ask(family, said, *, tools=(WEATHER,), question="Weather?", max_tokens=300, extra=None):
            if family not in backends:
                marks = MARKS if family in TEMPLATES else tuple(dict.fromkeys(("<eos>", *form_of(family).marks)))
                folder = save(tmp_path_factory.mktemp("model"), TEMPLATES.get(family, family), marks)
                backends[family] = await stack.enter_async_context(opened(folder))
            backend = backends[family]
            asked = ModelRequest((Message(role="user", content=question),), tools=tuple(tools), extra=extra or {})
            start = await backend.count_tokens(asked) - 1
            loaded = backend._loader.engine.model
            ids = [*loaded.tokenizer(said, add_special_tokens=False).input_ids, loaded.tokenizer.eos_token_id]
            places = loaded.forward.model.transformer.wpe.weight
            with torch.inference_mode():
                places.zero_()
                places[range(start, start + len(ids)), ids] = 50.0
            options = {"max_tokens": max_tokens, "temperature": 0, "strategy": "direct", "extra": extra or {}}
            stretto = AsyncStretto(backend)
            async with stretto.stream(question, tools=list(tools) or None, **options) as events:
                told = [event async for event in events]
            return told[-1].answer, told

        yield ask


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("family", "said", "text", "thought", "extra"),
    [
        ("qwen3", f"<think>\nBy tool.\n</think>\n\n<tool_call>\n{OBJECT}\n</tool_call>", "", "By tool.", THINK),
        ("qwen3", f"Let me look.\n<tool_call>\n{OBJECT}\n</tool_call>", "Let me look.", "", {}),
        ("hermes", f"<tool_call>{OBJECT}</tool_call>", "", "", {}),
        ("llama 3.1", f'{{"name": "weather", "parameters": {GIVEN}}}', "", "", {}),
        ("llama 3.1", f'<|python_tag|>{{"name": "weather", "parameters": {GIVEN}}}', "", "", {}),
        ("mistral", f"[TOOL_CALLS][{OBJECT}]", "", "", {}),
        ("magistral", f"[THINK]By tool.[/THINK][TOOL_CALLS]weather[ARGS]{GIVEN}", "", "By tool.", {}),
        ("smollm3", f"<think>By tool.</think>\n<tool_call>{OBJECT}</tool_call>", "", "By tool.", THINK),
        (
            "gpt-oss",
            "<|channel|>analysis<|message|>By tool.<|end|>",  # the control token that ends an answer here
            "",
            "By tool.",
            {},
        ),
        (
            "gpt-oss",
            f" to=functions.weather<|channel|>commentary <|constrain|>json<|message|>{GIVEN}<|call|>",
            "",
            "",
            {},
        ),
    ],
)
async def test_a_call_is_read_as_its_family_writes_it(ask, *, family, said, text, thought, extra):
    answer, told = await ask(family, said, extra=extra)
    assert (answer.text, thoughts_of(answer)) == (text, thought)
    calls = [(call.name, json.loads(call.arguments)) for call in answer.tool_calls]
    ends_early = said.endswith("<|end|>")
    assert calls == ([] if ends_early else [CALL])
    assert answer.finish_reason == ("stop" if ends_early else "tool_calls")
    assert [event.thought["reasoning_content"] for event in told if isinstance(event, ThoughtFinished)] == (
        [thought] if thought else []
    )
    assert bool(answer.usage.reasoning_tokens) == bool(thought)


FIRST = {case.family: case for case in reversed(LOCAL)}.values()  # of each family; all are in tests/markup


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, id=each.id, marks=[pytest.mark.thorough][: each.family != "nemotron"]) for each in FIRST],
)
async def test_what_models_of_known_families_write_is_read(ask, case):
    answer, _ = await ask(case.template, case.text, tools=() if case.form.calls is None else TOOLS)
    found = {"text": answer.text, "thoughts": thoughts_of(answer), "finish": answer.finish_reason}
    found["calls"] = [[call.name, json.loads(call.arguments)] for call in answer.tool_calls]
    assert found == {"thoughts": "", "calls": [], **case.gives}


def thoughts_of(answer):
    return "".join(part["reasoning_content"] for part in answer.thoughts)


@pytest.mark.thorough
async def test_a_model_that_always_thinks_goes_on_within_its_thought(ask):
    answer, _ = await ask("deepseek r1", "Hm, rain.\n</think>\n\nTake a coat.", tools=())
    assert (answer.text, thoughts_of(answer)) == ("Take a coat.", "Hm, rain.")
    assert len("Hm, rain.\n") <= answer.usage.reasoning_tokens <= len("Hm, rain.\n") + 2


@pytest.mark.parametrize(
    ("family", "said", "kept"),
    [
        ("qwen3", f"<tool_call>\n{OBJECT}\n</tool_call>", 30),  # within the object
        ("mistral", f"[TOOL_CALLS][{OBJECT}]", 30),
        ("llama 3.1", f'{{"name": "weather", "parameters": {GIVEN}}}', 30),
        ("gpt-oss", f" to=functions.weather<|channel|>commentary<|message|>{GIVEN}<|call|>", 40),
    ],
)
async def test_a_call_that_is_cut_is_none_and_the_answer_says_that_it_was_cut(ask, family, said, kept):
    answer, _ = await ask(family, said, max_tokens=kept)
    assert answer.tool_calls == ()
    assert answer.finish_reason == "length"


async def test_a_thought_that_is_cut_is_no_text(ask):
    answer, _ = await ask("qwen3", "<think>\nIt never ends, it never ends.", max_tokens=20, extra=THINK)
    assert (answer.text, answer.finish_reason) == ("", "length")
    assert answer.usage.reasoning_tokens == 20


@pytest.mark.parametrize(
    "said",
    [
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',  # none of the request's tools
        '<tool_call>{"name": "weather", "arguments": {"city": </tool_call>',
        "<tool_call></tool_call>",
        "</tool_call></think> <tool_call>",
        '{"name": "weather"',
    ],
)
async def test_what_is_no_call_is_shown_as_text(ask, said):
    answer, told = await ask("hermes", said)
    assert answer.tool_calls == ()
    assert answer.text == said.strip()
    assert "".join(event.text for event in told if event.type == "text_delta") == answer.text


@pytest.mark.parametrize("family", sorted(TEMPLATES.keys() - {"deepseek r1"}))
async def test_an_answer_without_marks_is_its_text(ask, family):
    for said in ("It rains.", "to=be, or not", "1 < 2"):
        assert (await ask(family, said))[0].text == said


async def test_marks_in_a_question_open_no_thought_and_call_nothing(ask):
    answer, _ = await ask("qwen3", "No.", question=f"<think><tool_call>{OBJECT}</tool_call><|end|>")
    assert (answer.text, answer.tool_calls, answer.thoughts) == ("No.", (), ())
