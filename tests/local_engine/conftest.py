"""The tiny models made ready, a byte-level tokenizer trained on the spot, and engines that are closed again."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import VOCABULARY, WINDOW, build
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from stretto.local_engine.drafting.suffix import DRAFTING
from stretto.local_engine.kernels.compiling.compiled_parts import CHOOSING
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.compiling.jit import run_compiled
from stretto.local_engine.model.loading.load import LoadedModel, prepare
from stretto.local_engine.serving.engine import Engine

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # they are programs, not a package
torch.set_num_threads(1)  # for models this small a second thread only waits


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """What draws tokens and drafts: compiled, and run so where a test calls it itself, unless there is no compiler."""
    run_compiled(compile_now([CHOOSING, DRAFTING]))
    yield
    run_compiled(False)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<begin>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["The bicycle needs oil, air and a dry place.", "Grüße aus 東京 🚲"] * 20, trainer)
    special = {"bos_token": "<begin>", "eos_token": "<end>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=WINDOW, **special)


@pytest.fixture(scope="session")
def loaded(tokenizer: PreTrainedTokenizerFast) -> Callable[[str], LoadedModel]:
    made: dict[str, LoadedModel] = {}

    def get(architecture: str) -> LoadedModel:
        if architecture not in made:
            made[architecture] = prepare(f"local:{architecture}", build(architecture), tokenizer)
        return made[architecture]

    return get


@pytest.fixture
def start():
    """Starts engines and closes them at the end of the test. They keep no prefixes unless told to."""
    engines: list[Engine] = []

    def start(model: LoadedModel, *, prefix_cache_bytes: int = 0, **options: Any) -> Engine:
        engines.append(Engine(model, threads=1, prefix_cache_bytes=prefix_cache_bytes, **options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
