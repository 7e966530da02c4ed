"""A model in this process: its name, its options, and what becomes of one that cannot be loaded."""

import json
import math
import os
import shutil
import subprocess
import sys
import threading

import anyio
import anyio.lowlevel
import pytest
import torch
from saved_models import collect, opened, prompt
from transformers import LlamaForCausalLM

from stretto.backends.local.backend import LocalBackend
from stretto.backends.provider_table import default_keys, either
from stretto.values.errors import BackendError, ModelNotFoundError, SettingsError, UnknownModelError

pytestmark = pytest.mark.anyio


async def test_closing_while_the_model_is_loading_leaves_no_thread(folder):
    before = set(threading.enumerate())
    backend = LocalBackend(f"local:{folder}")
    with anyio.move_on_after(0):
        await backend.count_tokens(prompt("one"))
    await backend.aclose()
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile


async def test_loading_does_not_hold_up_the_event_loop(folder):
    async with opened(folder) as backend:
        turns = 0

        async def turn(scope):
            nonlocal turns
            with scope:
                while True:
                    await anyio.lowlevel.checkpoint()
                    turns += 1

        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(turn, scope)
            await backend.count_tokens(prompt("one"))
            scope.cancel()
    assert turns > 10


@pytest.mark.thorough
def test_what_it_can_do_is_known_without_torch():
    code = (
        "import sys; from stretto.local import LocalBackend; b = LocalBackend('local:Qwen/Qwen3-0.6B'); "
        "b.name, b.capabilities; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'tokenizers')))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_capabilities_come_from_the_folder(folder):
    backend = LocalBackend(str(folder))
    assert backend.name == f"local:{folder}"
    assert backend.capabilities.context_window == 512
    assert backend.capabilities.prompt_family == "small"  # by its size
    assert {"auto", "autoregressive", "lookahead"} < set(backend.capabilities.decodings)
    assert "draft_model" not in backend.capabilities.decodings


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("local:./nowhere", ModelNotFoundError, "There is no folder 'nowhere'"),
        ("local:", UnknownModelError, "is no name of a local model"),
        ("local:what is this?", UnknownModelError, "local:pocket"),
    ],
)
def test_a_name_that_is_no_model_is_refused_at_once(name, error, words):
    with pytest.raises(error, match=words):
        LocalBackend(name)


def test_a_folder_without_a_model_is_refused_at_once(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"config\.json is missing"):
        LocalBackend(f"local:{tmp_path}")


async def test_a_folder_that_cannot_be_loaded_says_so_and_leaves_no_thread(tmp_path, folder):
    before = set(threading.enumerate())
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    backend = LocalBackend(f"local:{tmp_path}")
    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="could not be loaded"):
            await collect(backend)
    await backend.aclose()
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"dtype": "floaty"}, {"device": "not a device"}])
def test_an_impossible_dtype_or_device_is_told_when_the_backend_is_made(folder, options):
    with pytest.raises(SettingsError, match=next(iter(options.values()))):
        LocalBackend(f"local:{folder}", **options)


async def test_a_device_that_this_machine_has_not_is_told_when_the_model_is_loaded(folder):
    backend = LocalBackend(f"local:{folder}", device="toaster")
    with pytest.raises(SettingsError, match="toaster"):
        await collect(backend)
    await backend.aclose()


async def test_tokens_that_the_tokenizer_does_not_know_are_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    model = LlamaForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(257 + 139, mean_resizing=False)
    with torch.no_grad():
        model.lm_head.weight[:257] = 0
        model.lm_head.weight[257:] = torch.cat((model.lm_head.weight.new_ones(70, 32), -torch.ones(69, 32)))
    model.save_pretrained(tmp_path)
    async with opened(tmp_path) as backend:
        with pytest.raises(
            BackendError, match=r"weights are for 396 tokens, and its tokenizer knows 257\. Give it the"
        ):
            await collect(backend, max_tokens=12)


@pytest.mark.thorough
def test_python_without_docstrings_is_named_as_the_cause(folder):
    code = """
import asyncio, sys
from stretto.backends.local.backend import LocalBackend
from stretto.backends.base import ModelRequest
try:
    asyncio.run(LocalBackend(sys.argv[1]).count_tokens(ModelRequest(())))
except Exception as error:
    print(type(error).__name__, error)
"""
    command = [sys.executable, "-OO", "-c", code, str(folder)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.startswith("BackendError ")
    assert "cannot be loaded by python -OO, which leaves out the docstrings that transformers reads" in said


@pytest.mark.thorough
def test_without_the_extra_it_says_what_to_install(folder):
    code = """
import asyncio, sys
sys.modules["torch"] = None
from stretto.backends.local.backend import LocalBackend
from stretto.backends.base import ModelRequest
try:
    asyncio.run(LocalBackend(sys.argv[1]).count_tokens(ModelRequest(())))
except Exception as error:
    print(type(error).__name__, error)
"""
    run = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True)
    assert run.stdout.startswith(f"MissingDependencyError local:{folder} needs torch")
    assert "pip install 'stretto[local]'" in run.stdout


@pytest.mark.thorough
def test_the_model_that_answers_where_none_is_named_says_how_to_do_without_it():
    code = """
import sys
sys.modules["torch"] = None
from stretto import Stretto, StrettoError
with Stretto() as stretto:
    try:
        stretto.ask("Why?")
    except StrettoError as error:
        print(error)
"""
    without_keys = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=without_keys)
    assert run.stdout == (
        "local:pocket needs torch, which cannot be imported here. Run: pip install 'stretto[local]'. "
        f"Without it, set {either([*default_keys()])}, or name another model.\n"
    )


async def test_weights_that_are_not_safetensors_are_not_read(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.safetensors").unlink()
    torch.save(LlamaForCausalLM.from_pretrained(folder).state_dict(), tmp_path / "pytorch_model.bin")
    backend = LocalBackend(f"local:{tmp_path}")
    with pytest.raises(ModelNotFoundError, match="safetensors"):
        await collect(backend)
    await backend.aclose()


@pytest.mark.thorough
def test_a_hub_name_that_cannot_be_reached_says_what_to_do(tmp_path):
    code = """
import asyncio
from stretto.backends.local.backend import LocalBackend
from stretto.backends.base import ModelRequest
async def main():
    backend = LocalBackend("local:nobody/no-such-model")
    try:
        await backend.count_tokens(ModelRequest(()))
    except Exception as error:
        print(type(error).__name__, error)
    await backend.aclose()
asyncio.run(main())
"""
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], check=True, env=offline, capture_output=True, text=True)
    assert run.stdout.startswith("ModelNotFoundError 'nobody/no-such-model' could not be loaded from the hub")
    assert "local:./folder" in run.stdout
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{}", "Should have a `model_type` key in its config.json. Give one"),
        ('{"model_type": "nonsense"}', "`nonsense`"),
        ("[]", "config.json is damaged or incomplete (no JSON object)"),
        ("null", "config.json is damaged or incomplete (no JSON object)"),
    ],
)
async def test_a_folder_of_no_known_model_says_what_is_wrong_with_it(tmp_path, config, says):
    (tmp_path / "config.json").write_text(config)
    backend = LocalBackend(f"local:{tmp_path}")
    assert backend.capabilities  # the router asks for the context window before the model is loaded
    with pytest.raises(ModelNotFoundError) as caught:
        await collect(backend)
    await backend.aclose()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


VALUES = {
    "rope_theta is 'x' in its config.json, and a positive number is needed": {"rope_theta": "x"},
    "rope_theta is inf in its config.json, and a positive": {"rope_theta": math.inf},
    "rope_theta is None in its config.json, and a positive": {"rope_theta": None},
    "rope_scaling.type is 'spiral' in its config.json, and one of default, ": {"rope_scaling": {"type": "spiral"}},
    "rope_scaling.rope_type is ['yarn'] in its config.json": {"rope_scaling": {"rope_type": ["yarn"]}},
    "rope_scaling is [1] in its config.json, and a JSON object": {"rope_scaling": [1]},
    "rope_scaling.factor is 0 in its config.json": {"rope_scaling": {"type": "linear", "factor": 0}},
    "rope_scaling.low_freq_factor is missing in its": {"rope_scaling": {"rope_type": "llama3", "factor": 8}},
    "rope_scaling.long_factor is ['x'] in its": {"rope_scaling": {"type": "longrope", "long_factor": ["x"]}},
    "num_attention_heads is 0 in its config.json, and a whole number from 1": {"num_attention_heads": 0},
    "vocab_size is -5 in its config.json": {"vocab_size": -5},
    "head_dim is 'x' in its config.json": {"head_dim": "x"},
    "hidden_act is 'wat' in its config.json": {"hidden_act": "wat"},
    "rms_norm_eps is 'x' in its config.json, and a small number": {"rms_norm_eps": "x"},
}


@pytest.mark.parametrize("says", VALUES)
async def test_a_value_that_no_model_can_have_is_named(tmp_path, folder, says):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"]
    (tmp_path / "config.json").write_text(json.dumps(config | VALUES[says]))
    async with opened(tmp_path) as backend:
        with pytest.raises(ModelNotFoundError) as caught:
            await collect(backend)
    assert says in str(caught.value)
    assert str(caught.value).endswith("Take the config.json that the model was published with.")


def test_a_decoding_method_that_does_not_exist_is_refused_with_the_names_of_all(folder):
    with pytest.raises(SettingsError, match=r"decoding='turbo' cannot be used. Use one of: .*\bsuffix\b"):
        LocalBackend(f"local:{folder}", decoding="turbo")
    with pytest.raises(SettingsError, match=r"'draft_model' cannot be used. It needs draft=, a smaller model."):
        LocalBackend(f"local:{folder}", decoding="draft_model")


def test_more_answers_than_memory_is_meant_for_are_refused(folder):
    with pytest.raises(
        SettingsError, match=r"draft_history_tokens=2000000 cannot be used: 1,000,000 tokens are the most."
    ):
        LocalBackend(f"local:{folder}", draft_history_tokens=2_000_000)


def test_lexical_units_need_an_adapter_and_the_lossy_form_is_never_offered(folder):
    backend = LocalBackend(f"local:{folder}")
    assert not {"lexical", "lexical_lossy"} & set(backend.capabilities.decodings)
    for decoding in ("lexical", "lexical_lossy"):
        with pytest.raises(SettingsError, match=r"It needs an adapter .* recipes.lexical.train --model"):
            LocalBackend(f"local:{folder}", decoding=decoding)
