import math
import re

import pytest

from stretto.local_engine.generation import Generation
from stretto.values.errors import InvalidRequestError

NAN, INFINITE = math.nan, math.inf
WRONG = [
    *(("temperature", value) for value in (NAN, -0.1, INFINITE, 1e300, "1", None, True)),
    *(("top_p", value) for value in (NAN, -0.1, 1.1, INFINITE)),
    *(("top_k", value) for value in (NAN, -1, 1.5, 50.0)),
    *(("min_p", value) for value in (NAN, -0.1, 1.1)),
    *(("repetition_penalty", value) for value in (NAN, 0, -1.0, INFINITE, 1e300)),
    *(("no_repeat_ngram_size", value) for value in (NAN, -1, 2.5)),
    *(("max_new_tokens", value) for value in (NAN, 0, -1, 1.5, True, None)),
    *(("logprobs", value) for value in (NAN, -1, 1.5, 10**9)),
    *(("seed", value) for value in (NAN, 1.5, "1")),
]
RIGHT = [
    {"temperature": 0},
    {"temperature": 1e-300},
    {"temperature": 100.0},
    {"top_p": 0.0},
    {"top_p": 1},
    {"top_k": 10**30},
    {"min_p": 1.0},
    {"repetition_penalty": 1},
    {"max_new_tokens": 10**12},
    {"logprobs": 0},
    {"seed": -(10**40)},
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_number_that_cannot_be_used_is_refused_by_name_and_value(name, value):
    with pytest.raises(InvalidRequestError) as caught:
        Generation(**{"prompt": (1,), "max_new_tokens": 5, name: value})
    assert str(caught.value).startswith(f"{name}={value!r} cannot be used: it is a ")


@pytest.mark.parametrize("bias", [NAN, INFINITE, -INFINITE, 1e300])
def test_a_bias_that_is_no_number_is_refused_with_its_token(bias):
    with pytest.raises(InvalidRequestError, match=r"logit_bias\[7\]=.* cannot be used"):
        Generation((1,), 5, logit_bias={3: 1.0, 7: bias})


@pytest.mark.parametrize("settings", RIGHT, ids=str)
def test_numbers_at_the_edge_are_taken(settings):
    assert Generation(**{"prompt": (1,), "max_new_tokens": 5, **settings})


@pytest.mark.parametrize("name", ["prompt", "end_ids", "suppress_tokens", "begin_suppress_tokens"])
@pytest.mark.parametrize("odd", ["a", 1.5, True, None])
def test_what_is_no_token_id_is_refused_by_name_and_value(name, odd):
    settings = {"prompt": (1,), "max_new_tokens": 1} | {name: (odd,)}
    with pytest.raises(InvalidRequestError, match=re.escape(f"{name} cannot hold {odd!r}")):
        Generation(**settings)


@pytest.mark.parametrize("odd", ["", 5, None])
def test_a_stop_text_that_is_none_is_refused(odd):
    with pytest.raises(InvalidRequestError, match=re.escape(f"stop cannot hold {odd!r}")):
        Generation((1,), 1, stop=("end", odd))
