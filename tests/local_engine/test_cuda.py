"""What only a GPU shows; the rest of its path is tested by `pretend_gpu.py` and `recording.py`."""

import pytest
import torch
from asking import PROMPTS, submit_together, tokens
from tiny_models import build

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward import gpu_attention
from stretto.local_engine.model.graphs.recorded_steps import GraphedForward
from stretto.local_engine.model.loading.load import prepare

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="it is about a CUDA device, and there is none")
METHODS = ("autoregressive", "prompt_lookup", "suffix", "lookahead")


@pytest.fixture(scope="module")
def model(tokenizer):
    return prepare("local:llama", build("llama").to("cuda"), tokenizer)


def request(prompt, decoding="autoregressive", **settings):
    return Generation(tuple(prompt), 30, decoding=decoding, **settings)


def test_steps_are_recorded_while_the_model_is_loaded(model):
    assert isinstance(model.forward, GraphedForward)
    assert model.forward.works
    assert model.forward.steps > 8


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "seed": 4}], ids=["greedy", "sampled"])
def test_recorded_steps_answer_as_the_plain_forward_does_alone_and_in_batches(model, tokenizer, start, settings):
    bare = start(prepare("local:llama", build("llama").to("cuda"), tokenizer, cuda_graphs=False))
    fast = start(model)
    expected = [tokens(bare.submit(request(prompt, **settings))) for prompt in PROMPTS]
    for method in METHODS:
        assert [tokens(fast.submit(request(prompt, method, **settings))) for prompt in PROMPTS] == expected
        asked = [request(prompt, method, **settings) for prompt in PROMPTS]
        assert [tokens(handle) for handle in submit_together(fast, asked)] == expected
    assert model.forward.works


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kernel_that_is_chosen_by_name_runs_and_is_right(dtype):
    assert gpu_attention._runs(torch.device("cuda", torch.cuda.current_device()), dtype, 64, 64)
