"""A model over several processes: what goes between them, and what is done to caches that the engine does not hold."""

import gc
import os
import sys
from dataclasses import replace
from io import FileIO

import pytest
import torch
from asking import PROMPTS, submit_together, tokens
from transformers import GPT2Config, LlamaConfig

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.process_layout import ProcessLayout
from stretto.local_engine.research.several_devices.part import ModelPart
from stretto.local_engine.research.several_devices.part_process import check_divisible
from stretto.local_engine.research.several_devices.pipeline import microbatches
from stretto.local_engine.research.several_devices.processes import Processes
from stretto.local_engine.research.several_devices.shared_forward import SharedForward
from stretto.local_engine.research.several_devices.tensor_messages import receive, send
from stretto.values.errors import BackendError, SettingsError

METHODS = ("autoregressive", "suffix", "prompt_lookup", "auto", "lookahead")


class Beside:
    """In place of the processes: a whole model in this one, which hears what they would hear."""

    def __init__(self, model):
        self.part = ModelPart(TransformersForward(model), torch.device("cpu"))

    def ask(self, said, tensors):
        return [({"busy_s": None}, {"logits": self.part.run(said, tensors)})]

    def end(self):
        pass


@pytest.fixture
def whole(loaded):
    """A model with transformers' forward, in one process."""
    model = loaded("gemma2")
    assert isinstance(model.forward, TransformersForward)
    return model


@pytest.fixture
def divided(whole):
    forward = SharedForward(Beside(whole.forward.model), ProcessLayout(), alone=False, switch=None, token_size=64)
    return replace(whole, forward=forward)


@pytest.mark.parametrize("method", METHODS)
def test_tokens_are_those_of_one_process(method, whole, divided, start):
    expected, found = (
        tokens(start(model).submit(Generation(PROMPTS[0], 30, decoding=method))) for model in (whole, divided)
    )
    assert found == expected


def test_requests_that_join_and_leave_a_batch_get_the_tokens_of_one_process(whole, divided, start):
    asked = [Generation(prompt, 5 * number, decoding="suffix") for number, prompt in enumerate(PROMPTS, 2)]
    asked += [replace(asked[1], temperature=1.5, seed=7), replace(asked[2], max_new_tokens=40)]
    expected, found = (
        [tokens(handle) for handle in submit_together(start(model, batch_size=3), asked)] for model in (whole, divided)
    )
    assert found == expected


def test_a_prompt_that_begins_like_an_earlier_one_starts_from_its_keys(whole, divided, start):
    engine = start(divided, prefix_cache_bytes=2**20)
    tokens(engine.submit(Generation(PROMPTS[0], 5)))
    handle = engine.submit(Generation(PROMPTS[4], 20))
    assert tokens(handle) == tokens(start(whole).submit(Generation(PROMPTS[4], 20)))
    assert handle.sequence.cached >= 30


def test_caches_that_the_engine_lets_go_of_are_dropped_everywhere(divided, start):
    engine = start(divided)
    for _ in range(4):
        tokens(engine.submit(Generation(PROMPTS[0], 3)))
    gc.collect()
    tokens(engine.submit(Generation(PROMPTS[1], 3)))
    assert len(divided.forward._processes.part._caches) <= 3


@pytest.mark.skipif(sys.platform == "win32", reason="is refused there")
def test_what_is_remarked_on_one_error_is_not_on_the_next_one():
    processes = Processes("local:any", ProcessLayout(pipeline=2), on_cuda=False)
    for process in processes._processes:
        process.popen.kill()
    errors = []
    for _ in range(2):
        with pytest.raises(BackendError) as raised:
            processes.ask({})
        raised.value.remark("Not tried again.")
        errors.append(str(raised.value))
    assert errors[0] == errors[1]
    assert "process 1 was ended by SIGKILL" in errors[0]
    assert errors[0].count("Not tried again.") == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool])
def test_a_tensor_arrives_as_it_was_sent(dtype):
    reading, writing = (FileIO(end, mode) for end, mode in zip(os.pipe(), "rw", strict=True))
    sent = {
        "full": torch.arange(6).view(2, 3).to(dtype),
        "turned": torch.arange(6).view(2, 3).to(dtype).T,
        "none": torch.empty(0, 4, dtype=dtype),
    }
    send(writing, {"said": [1, None]}, sent)
    writing.close()
    said, found = receive(reading)
    assert said == {"said": [1, None]}
    assert all(torch.equal(tensor, found[name]) and tensor.dtype == found[name].dtype for name, tensor in sent.items())
    with pytest.raises(EOFError):
        receive(reading)
    reading.close()


def test_a_batch_is_divided_by_sequences_and_a_prompt_by_its_rows():
    tokens, positions = torch.arange(24).view(4, 6), torch.arange(6).expand(4, 6) + 10
    by_sequence, along = microbatches(Rows(tokens, positions, 16), least=8, most=8)
    assert along == 0
    assert [part.tokens.shape for part in by_sequence] == [(1, 6), (1, 6), (2, 6)]
    assert torch.equal(torch.cat([part.tokens for part in by_sequence]), tokens)
    by_row, along = microbatches(Rows(tokens[:1], positions[:1], 16), least=2, most=2)
    assert along == 1
    assert [(part.tokens.tolist(), part.kv_len) for part in by_row] == [([[0, 1, 2]], 13), ([[3, 4, 5]], 16)]


def test_the_nodes_of_a_tree_and_a_few_rows_stay_together():
    tokens = torch.arange(6)[None]
    tree = Rows(tokens, tokens, 6, slots=tokens, ancestry=torch.ones(1, 6, 6, dtype=torch.bool))
    assert len(microbatches(tree, least=2, most=8)[0]) == 1
    assert len(microbatches(Rows(tokens, tokens, 6), least=4, most=8)[0]) == 1


@pytest.mark.parametrize("layout", [ProcessLayout(tensor=2), ProcessLayout(pipeline=2)])
def test_architectures_that_transformers_does_not_divide_are_refused(layout, tmp_path):
    GPT2Config(n_head=4).save_pretrained(tmp_path)
    source = find_source(str(tmp_path))
    with pytest.raises(SettingsError, match="does not say how models of the type gpt2 are divided"):
        check_divisible(source, layout)


def test_quantised_weights_are_refused(tmp_path):
    LlamaConfig(quantization_config={"quant_method": "gptq", "bits": 4}).save_pretrained(tmp_path)
    with pytest.raises(SettingsError, match="whose weights are quantised"):
        check_divisible(find_source(str(tmp_path)), ProcessLayout(tensor=2))


HEADS = {"num_attention_heads": 12, "num_key_value_heads": 6, "num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tensor": 4}, "its num_key_value_heads, 6, cannot be divided by 4. Use 2 or 3 or 6."),
        ({"pipeline": 3}, "which has 2 layers: each process needs one or more"),
        ({"tensor": 0}, "tensor_parallel=0 cannot be used: give a number of processes, from 1 to 64"),
        ({"pipeline": True}, "pipeline_parallel=True cannot be used"),
    ],
)
def test_a_model_that_cannot_be_divided_so_is_refused(given, says):
    with pytest.raises(SettingsError, match=says):
        ProcessLayout(**given).check("local:any", HEADS)
    ProcessLayout(tensor=3).check("local:any", HEADS)
    ProcessLayout(pipeline=2).check("local:any", HEADS)
