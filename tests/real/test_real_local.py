"""SmolLM2 from its GGUF file in the local engine."""

import subprocess
import sys

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from stretto import AsyncStretto
from stretto.local import LocalBackend
from stretto.local_engine.model.loading.load import read_model
from stretto.local_engine.model.loading.source import find_source

pytestmark = pytest.mark.anyio

QUESTIONS = ["What is tea made of?", "Zähle drei Farben auf.", "def add(a, b):", "Write the numbers from 1 to 9."]
LENGTH = 24
MEMORY = """
import torch, transformers
from pathlib import Path
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.model.loading.load import read_model
transformers.LlamaForCausalLM, transformers.PreTrainedTokenizerFast
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss begins with that of the parent process
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
before = peak()
model, *_ = read_model(find_source("local:smollm2"), torch.bfloat16, trust_remote_code=False)
print(sum(weight.nbytes for weight in model.parameters()), peak() - before)
"""


@pytest.fixture(scope="module")
def by_transformers(smollm2_file):
    """What transformers' own reader makes of the file, in float32."""
    where = {"pretrained_model_name_or_path": str(smollm2_file.parent), "gguf_file": smollm2_file.name}
    whole = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    model = AutoModelForCausalLM.from_pretrained(**where, **whole, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(**where)


async def test_greedy_answers_in_float32_equal_those_of_transformers_on_the_same_file(by_transformers):
    model, tokenizer = by_transformers
    backend = LocalBackend("local:smollm2", dtype="float32")
    async with AsyncStretto(backend) as stretto:
        for question in QUESTIONS:
            turns = [{"role": "user", "content": question}]
            ids = tokenizer.apply_chat_template(
                turns, add_generation_prompt=True, return_tensors="pt", return_dict=False
            )
            said = model.generate(ids, max_new_tokens=LENGTH, do_sample=False)[0, ids.shape[1] :]
            answer = await stretto.ask(question, strategy="direct", temperature=0, max_tokens=LENGTH)
            assert answer.text == tokenizer.decode(said, skip_special_tokens=True)
    await backend.aclose()


def test_the_weights_equal_those_that_transformers_unpacks(by_transformers):
    ours, *_ = read_model(find_source("local:smollm2"), torch.float32, trust_remote_code=False)
    theirs = by_transformers[0].state_dict()
    assert ours.state_dict().keys() == theirs.keys()
    assert all(torch.equal(weight, theirs[name]) for name, weight in ours.state_dict().items())


def test_tokens_equal_those_of_llamacpp(llamacpp):
    """The tokenizer is built from the file by two programs. (Transformers' own reader differs at "½".)"""
    _, tokenizer, _ = read_model(find_source("local:smollm2"), torch.float32, trust_remote_code=False)
    for text in (*QUESTIONS, "It's 12,345 ½ größe 東京 🚲\n\n  x = [1, 2]\tend", "word " * 40):
        ours = tokenizer(text, add_special_tokens=False).input_ids
        assert ours == llamacpp.tokens(text)


def test_loading_takes_less_than_twice_the_memory_of_the_weights():
    measured = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout.split()
    weights, taken = map(int, measured)
    assert weights < taken < 2 * weights
