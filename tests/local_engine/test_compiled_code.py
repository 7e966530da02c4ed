"""An engine before and after there is compiled code for it, and one that has none at all."""

import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from asking import tokens
from tiny_models import build

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.compiling.jit import run_compiled, runs_compiled
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.serving import compiled_code

PROMPT = tuple(range(10, 40)) * 2
REQUESTS = {"greedy": {}, "drawn": {"temperature": 1.0, "seed": 3}, "drafted": {"decoding": "auto"}}


def asked(engine):
    return {name: tokens(engine.submit(Generation(PROMPT, 12, **given))) for name, given in REQUESTS.items()}


@pytest.fixture
def unpacked(tokenizer, monkeypatch):
    """A model that was loaded when nothing was compiled; and it is by now."""
    assert compile_now(LlamaForward(build("llama")).parts())
    with monkeypatch.context() as patch:
        patch.setattr("stretto.local_engine.model.loading.load.are_ready", lambda parts: not parts)
        return prepare("local:tiny", build("llama"), tokenizer, compiled=None)


class Later:
    """A compilation that ends when it is told to."""

    def __init__(self, _, then):
        self.done, self.then, Later.last = False, then, self

    def end(self):
        self.done = True
        self.then()


def cached_tokens(engine):
    """How much of the prompt an earlier request had computed."""
    handle = engine.submit(Generation(PROMPT, 1))
    tokens(handle)
    return handle.sequence.cached


def test_an_engine_changes_over_to_compiled_code_between_two_requests(unpacked, start, monkeypatch):
    monkeypatch.setattr(compiled_code, "Compilation", Later)
    engine = start(unpacked, prefix_cache_bytes=2**20)
    before = asked(engine)
    assert cached_tokens(engine) > 0
    assert not unpacked.forward.is_packed
    Later.last.end()
    # The engine changes over before the first of these requests or directly after it.
    assert 0 in [cached_tokens(engine), cached_tokens(engine)], "what torch has computed is dropped"
    assert asked(engine) == before
    assert unpacked.forward.is_exact


def test_a_thread_that_makes_an_engine_runs_afterwards_what_it_ran_before(unpacked, start):
    start(unpacked)
    assert runs_compiled()
    run_compiled(False)
    start(unpacked)
    assert not runs_compiled()
    run_compiled(True)


def test_packed_weights_that_disagree_with_the_model_are_not_kept(unpacked, monkeypatch, caplog):
    monkeypatch.setattr("stretto.local_engine.model.loading.load.disagreement", lambda *_: 7.0)
    unpacked.unpacked.pack()
    assert not unpacked.forward.is_packed
    assert "packed weights are not used: logits are off by 7 standard deviations" in caplog.text


def test_who_has_taken_the_forward_keeps_it(unpacked, start):
    engine = start(unpacked)
    engine.run_alongside(nothing for nothing in ())
    assert not engine._serving._code.due


def test_compiled_code_that_cannot_be_loaded_leaves_torch(unpacked, start, monkeypatch, caplog):
    def fail():
        raise RuntimeError("no such code")

    monkeypatch.setattr(compiled_code, "warm_up", fail)
    engine = start(unpacked)
    assert asked(engine)
    assert "torch chooses tokens, and Python drafts: RuntimeError: no such code" in caplog.text


@pytest.fixture
def python():
    """This thread drafts in Python."""
    run_compiled(False)
    yield
    run_compiled(True)


@pytest.mark.parametrize("name", ["auto", "suffix"])
@pytest.mark.parametrize("seed", range(4))
def test_drafters_say_the_same_in_python_and_compiled(name, seed, python, monkeypatch):
    monkeypatch.setattr("stretto.local_engine.drafting.auto.time", SimpleNamespace(perf_counter=lambda: 0.0))
    assert drafts(name, seed) == compiled_drafts(name, seed)


def compiled_drafts(name, seed):
    run_compiled(True)
    assert runs_compiled()
    return drafts(name, seed)


def drafts(name, seed):
    """What a drafter proposes on a text that repeats itself now and then, one token a step."""
    chance = random.Random(seed)  # noqa: S311 - chance, not secrets
    context, drafter, proposed = (
        DraftContext([chance.randrange(30) for _ in range(40)], 40, 50),
        DRAFTERS[name](DraftEquipment()),
        [],
    )
    for _ in range(40):
        tree = drafter.propose(context, 16)
        proposed.append((tree.tokens, tree.parents, tree.survival))
        shape = (1 + len(tree), drafter.wants_top)
        numbers = np.random.default_rng(seed + len(proposed))
        tops = numbers.integers(0, 50, shape), np.sort(numbers.random(shape, np.float32))[:, ::-1].copy()
        context.tokens.append(context.tokens[-20] if chance.random() < 0.8 else chance.randrange(30))
        drafter.learn(context, DraftOutcome(list(range(1, 1 + len(tree))), *tops, context.tokens[-1:], []))
    return proposed


WITHOUT = """
import asyncio, logging, sys
logging.basicConfig(level=logging.WARNING, format="%(message)s")
{before}
from stretto import AsyncStretto
from stretto.local import LocalBackend

async def main():
    async with AsyncStretto(LocalBackend("local:pocket", compiled={compiled})) as stretto:
        for options in {options}:
            answer = await stretto.ask("How many days has a week?", strategy="direct", **options)
            print(answer.text.split()[-1], *answer.warnings)
    print(sorted({{"numba", "llvmlite"}} & {{name for name, module in sys.modules.items() if module}}))

asyncio.run(main())
"""
WAYS = [{"decoding": "auto"}, {"temperature": 0.7, "seed": 1}, {"decoding": "lexical"}]
HIDDEN = "sys.modules['numba'] = sys.modules['llvmlite'] = None"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("before", "compiled", "environment"),
    [
        (HIDDEN, None, {"STRETTO_COMPILED": "0"}),
        ("", False, {}),
        ("", None, {"NUMBA_DISABLE_JIT": "1"}),
    ],
    ids=[
        "no numba, STRETTO_COMPILED=0",
        "compiled=False",
        "NUMBA_DISABLE_JIT=1",
    ],
)
def test_without_compiled_code_all_of_it_runs_in_torch_and_python(before, compiled, environment, tmp_path):
    given = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "STRETTO_SETTINGS": os.devnull}
    given.pop("STRETTO_COMPILED")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(before=before, compiled=compiled, options=WAYS)],
        env=given | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    *answers, imported = done.stdout.splitlines()
    assert imported == "[]"
    assert len(set(answers)) == 1, answers
    assert len(answers) == 3
    assert done.stderr == ""
    # How long loading took is remembered all the same.
    assert [
        path.name for path in Path(tmp_path).rglob("*") if path.is_file() and not path.name.startswith("seconds-")
    ] == []


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [None, True])
def test_one_warning_says_which_extra_brings_the_compiler(compiled, tmp_path):
    given = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "STRETTO_SETTINGS": os.devnull}
    given.pop("STRETTO_COMPILED")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(before=HIDDEN, compiled=compiled, options=[{"max_tokens": 4}])],
        env=given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines() == [
        "Local models run in torch's operations, more slowly: numba is not installed. "
        "Run: pip install 'stretto[compiled]'. STRETTO_COMPILED=0 does without it."
    ]


def test_every_drafter_is_made_without_numba():
    program = f"import sys\n{HIDDEN}\n"
    program += "from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment\n"
    program += "".join(
        f"DRAFTERS[{name!r}](DraftEquipment())\n"
        for name in DRAFTERS
        if name not in {"draft_model", "head", "lexical", "lexical_lossy"}
    )
    subprocess.run([sys.executable, "-c", program], check=True)
