"""The cause of a route names what decided: words of the question, the form that it has, what was measured."""

import re

import pytest

from stretto.backends.base import Capabilities, Measured
from stretto.backends.load import meter_of
from stretto.router import Router, ShapeModel
from stretto.testing import ScriptedBackend
from stretto.values.request import Request

STEPS = {1: 4.0, 8: 5.0, 64: 12.0}
IN_POINTS = Capabilities(prompt_family="pocket")  # whose answers are in parts wherever that suits


class Measuring(ScriptedBackend):
    """Says how fast it is."""

    step_ms = STEPS

    def measured(self):
        return Measured(step_ms=self.step_ms)


def cause(prompt, backend=None):
    return (
        Router()
        .decide(Request.of(prompt), {"main": backend or ScriptedBackend({}, name="openai:any", capabilities=IN_POINTS)})
        .reason
    )


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("What are the pros and cons of remote work?", "pros"),
        ("Write a poem about the sea.", "poem"),
        ("How do I tie a bow tie?", "tie"),
        ("Write a Python function that adds two numbers.", "Python"),
        ("What is the capital of Mongolia?", "Mongolia"),
        ("Schreibe ein Gedicht über das Meer.", "Gedicht"),
        ("Give me ten slogans for a bakery.", "slogans"),
        ("远程工作的优点和缺点是什么？", "优点"),
        ("ما فوائد القراءة؟", "فوائد"),
    ],
)
def test_the_cause_names_words_of_the_question_that_decided(prompt, named):
    quoted = re.findall(r'"([^"]+)"', cause(prompt))
    assert 1 <= len(quoted) <= 2
    assert named in " ".join(quoted)


@pytest.mark.parametrize(
    "prompt",
    [
        "What are the pros and cons of remote work?",
        "Write a poem about the sea.",
        "How do I tie a bow tie?",
        "What are some tips for a job interview?",
        "Translate this letter into French and keep its tone, please.",
    ],
)
def test_without_the_named_words_the_question_is_judged_less_surely(prompt):
    model = ShapeModel.committed()
    judgement = model.judge(prompt)
    without = prompt
    for quoted in re.findall(r'"([^"]+)"', cause(prompt)):
        assert quoted in without
        without = without.replace(quoted, " ")
    assert model.judge(without).shapes[judgement.shape] < judgement.shapes[judgement.shape]


def test_the_cause_says_what_the_answer_would_be_else():
    judgement = ShapeModel.committed().judge("How do I look after a bicycle?")
    assert judgement.next_shape == "steps"
    assert f"; steps {judgement.shapes['steps']:.0%})" in cause("How do I look after a bicycle?")
    assert "; " not in cause("Write a poem about the sea.")  # nothing else is likely


def test_the_form_of_a_question_is_named_where_it_decides():
    code = "```\n" + "\n".join(f"{letter} = {letter}({letter})" for letter in "qwzxk") + "\n```\nqwzx?"
    assert '"' in cause(code) or "a block of code" in cause(code)


def test_no_words_are_made_up_where_none_decided():
    assert cause("xqzt vbrk plomf") == ("Written in one piece: nothing in the request says what shape the answer has.")


def test_long_words_are_cut():
    assert len(cause("Write a poem about " + "x" * 500)) < 250


def test_a_choice_that_depends_on_the_measured_steps_of_this_machine_says_so():
    prompt = "What are the pros and cons of remote work?"
    able = Capabilities(decodings=("autoregressive",), prompt_family="pocket")
    local = Measuring({}, name="local:scripted", capabilities=able)
    assert cause(prompt, local).endswith(" s, by the steps measured on this machine.")
    local.step_ms = {1: 4.0, 8: 32.0, 64: 256.0}  # calls side by side gain nothing
    assert ", by the steps measured on this machine, too little gained." in cause(prompt, local)
    assert "measured" not in cause(prompt, ScriptedBackend({}, name="local:scripted", capabilities=able))
    assert "measured" not in cause("Write a poem about the sea.", local)


def test_what_the_calls_of_a_server_showed_decides_whether_parts_pay():
    prompt = "What are the pros and cons of remote work?"
    server = ScriptedBackend({}, name="llamacpp:any", capabilities=IN_POINTS)
    assert "measured" not in cause(prompt, server)
    meter_of(server).tokens_per_s.update({1: 50.0, 8: 45.0})
    assert cause(prompt, server).endswith(" s, by the speed of its earlier calls.")
    meter_of(server).tokens_per_s.update({8: 50.0 / 8})  # one machine computes all of them
    assert ", by the speed of its earlier calls, too little gained." in cause(prompt, server)
