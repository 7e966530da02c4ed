"""A closed engine frees its weights at once: no cycle of references goes through engine, thread or model."""

import gc
import logging
import subprocess
import sys
import weakref

import pytest
import torch
from asking import PROMPTS, tokens
from gguf_files import write_gguf
from patience import patience
from tiny_models import SIZES, build
from transformers import LlamaConfig, LlamaForCausalLM

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model, prepare
from stretto.local_engine.model.loading.memory import give_back, older_objects_kept
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import BackendError

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def tensors(thing, seen=None):
    """The tensors that an object of the engine refers to, through attributes, lists and dicts."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return []
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, torch.nn.Module):
        return list(thing.parameters())
    if isinstance(thing, dict):
        inner = list(thing.values())
    elif isinstance(thing, list | tuple):
        inner = list(thing)
    else:
        slots = [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
        inner = [*slots, *vars(thing).values()] if hasattr(thing, "__dict__") else slots
    return [tensor for each in inner for tensor in tensors(each, seen)]


def weights_of(model):
    found = [weakref.ref(tensor) for tensor in tensors(model.forward) if tensor.numel() > 1000]
    assert found
    return found


MODELS = {
    "pocket": lambda _: load_model(find_source("local:pocket")),
    "pocket in torch": lambda _: load_model(find_source("local:pocket"), compiled=False),
    "gemma2": lambda tokenizer: prepare("local:gemma2", build("gemma2"), tokenizer),
    "gpt2": lambda tokenizer: prepare("local:gpt2", build("gpt2"), tokenizer),
}


def broken(_):
    raise RuntimeError("no drafter")


@pytest.mark.parametrize("use", ["none", "answers", "errors"])
@pytest.mark.parametrize("name", MODELS)
def test_a_closed_engine_frees_its_weights_at_once(name, use, tokenizer):
    model = MODELS[name](tokenizer)
    weights = weights_of(model)
    engine = Engine(model, threads=1, drafters=DRAFTERS | {"broken": broken})
    if use == "answers":
        for decoding in ("autoregressive", "auto", "suffix", "lookahead"):
            assert tokens(engine.submit(Generation(PROMPTS[0], 8, decoding=decoding)))
    if use == "errors":
        with pytest.raises(RuntimeError, match="no drafter"):
            engine.submit(Generation(PROMPTS[0], 8, decoding="broken"))
        with pytest.raises(BackendError):
            engine.submit(Generation((5,) * 10**6, 8))
    del model
    engine.close()
    del engine
    assert [ref for ref in weights if ref() is not None] == []


MEMORY = """
import os, sys
from pathlib import Path
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine

def answered(name):
    engine = Engine(load_model(find_source(name), dtype=sys.argv[2]), prefix_cache_bytes=0)
    assert list(engine.submit(Generation((5, 6, 7), 3)))[-1].error is None
    return engine

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

answered("local:pocket").free()  # libraries and compiled code are in memory now
before = resident()
engine = answered(sys.argv[1])
assert engine.model.forward.is_packed
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize(("dtype", "tied"), [("float32", False), ("bfloat16", True)])
def test_a_loaded_model_takes_little_more_memory_than_its_weights(dtype, tied, tmp_path, tokenizer):
    torch.manual_seed(1)
    wider = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "initializer_range": 0.02}
    config = LlamaConfig(**SIZES | wider, tie_word_embeddings=tied)
    model = LlamaForCausalLM(config).to(getattr(torch, dtype))
    weights = sum(weight.numel() * weight.itemsize for weight in model.parameters())
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    del model
    command = [sys.executable, "-c", MEMORY, str(tmp_path), dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(300), check=False)
    assert weights > 70e6
    assert int(done.stdout) < 1.3 * weights, done.stderr


IN_BLOCKS = """
import os, sys
from pathlib import Path
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.fitting import bytes_in_blocks
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.model.quantised import kept_blocks
from stretto.local_engine.serving.engine import Engine

def memory(name):
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)]
    return 1024 * int(line.split()[1])

def answered(name):
    engine = Engine(load_model(find_source(f"local:{name}"), compiled=True), prefix_cache_bytes=0)
    assert list(engine.submit(Generation((5, 6, 7), 3)))[-1].error is None
    kept_blocks.finish()
    return engine

kept_blocks._folder = lambda: Path(sys.argv[3])
answered(sys.argv[1]).free()  # libraries and compiled code are in memory now
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
engine = answered(sys.argv[2])
print(bool(engine.model.forward.weights.mapped), memory("VmHWM") - before, bytes_in_blocks(find_source(sys.argv[2])))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_file_in_few_bits_takes_little_more_than_its_blocks_while_it_is_loaded(tmp_path, tokenizer):
    """At its peak, whether the blocks are laid out or mapped."""
    wider = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 6}
    for name, sizes in (("small.gguf", {"intermediate_size": 96}), ("large.gguf", wider)):
        torch.manual_seed(1)
        write_gguf(tmp_path / name, LlamaForCausalLM(LlamaConfig(**SIZES | sizes)), tokenizer, kind="Q8_0")
    for mapped in ("False", "True"):
        command = [
            sys.executable,
            "-c",
            IN_BLOCKS,
            *(str(tmp_path / name) for name in ("small.gguf", "large.gguf", "kept")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience(300), check=False)
        assert done.returncode == 0, done.stderr
        was_mapped, peak, blocks = done.stdout.split()
        assert was_mapped == mapped
        assert int(blocks) > 80e6
        assert int(peak) < 1.2 * int(blocks), peak


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_small_model_is_compared_with_transformers_in_one_thread(name, tokenizer):
    model, seen = build(name), []
    model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    prepare(f"local:{name}", model, tokenizer)
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


def test_a_log_tells_how_far_the_loading_is(caplog):
    with caplog.at_level(logging.INFO, "stretto"):
        load_model(find_source("local:pocket"))
    said = [record.stretto["event"] for record in caplog.records if hasattr(record, "stretto")]
    assert said[:2] == ["reading the weights", "comparing it with transformers"]


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def unfrozen():
    """Nothing is kept from the collector, as in a program of a user."""
    gc.unfreeze()
    yield
    gc.freeze()  # as tests/conftest.py does


@pytest.mark.usefixtures("unfrozen")
def test_only_garbage_of_the_loading_itself_is_looked_for():
    older = weakref.ref(Ring())
    with older_objects_kept():
        newer = weakref.ref(Ring())
        with older_objects_kept():  # another thread loads, too
            give_back()
        assert newer() is None
        assert older() is not None
    give_back()
    assert older() is None
