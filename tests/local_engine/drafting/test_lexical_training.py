"""The recipe of lexical unit decoding, on a tiny model and its own texts; then decoding with what it trained."""

from dataclasses import replace

import pytest
import torch
from asking import outcome
from gguf_files import write_gguf
from lexical_adapters import random_adapter
from tiny_models import build

from recipes.lexical.texts import Texts, continuations, keep, kept
from recipes.lexical.train import Plan, Trainer, main
from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model, prepare
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.lexical import FILE
from stretto.local_engine.research.lexical.pads import attach
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough

PLAN = Plan(steps=40, tokens=3, threshold=0.0, texts=1, anchors=160, beside=16, last=64, rate=0.02)
PROMPTS = [tuple((5 * place + 17 * number) % 390 + 5 for place in range(8)) for number in range(2)]


@pytest.fixture(scope="module")
def model(tokenizer):
    return prepare("local:tiny", build("qwen3"), tokenizer, packed=False)  # as for training


@pytest.fixture(scope="module")
def texts(model):
    return Texts(continuations(model, PROMPTS[:1]))  # greedy; others are sampled


@pytest.fixture(scope="module")
def trained(model, texts, tmp_path_factory):
    """The model with its adapter, and how the first and the last step of the training went."""
    trainer = Trainer(PLAN, model, texts, tmp_path_factory.mktemp("run"))
    first = trainer.step()
    while trainer.progress < 1:
        last = trainer.step()
    model.forward.adapter = trainer.adapter()
    return model, first, last


def ask(engine, prompt, decoding, tokens=80):
    handle = engine.submit(Generation(prompt, tokens, decoding=decoding))
    finished = outcome(handle)[1]
    assert finished.error is None, finished.error
    return handle.sequence.generated, finished.figures


def test_pads_learn_what_the_model_says_and_save_it_steps(trained, start):
    model, first, last = trained
    assert last.loss < 0.5 * first.loss
    assert bool((last.right > first.right).all())
    cost = StepCost({1: 10.0, 64: 20.0})  # not that of a machine which may be busy
    engine = start(
        model, drafters={**DRAFTERS, "lexical": lambda given: DRAFTERS["lexical"](replace(given, cost=cost))}
    )
    for prompt in PROMPTS:  # the second one it has not learned from
        expected, _ = ask(engine, prompt, "autoregressive")
        got, figures = ask(engine, prompt, "lexical")
        assert got == expected
        assert figures.changed == 0
        if prompt == PROMPTS[0]:
            assert figures.tokens_per_step > 1.5


@pytest.mark.parametrize("alpha", [0.02, 0.5])
def test_lossy_counts_what_the_model_would_have_said_otherwise(alpha, tokenizer, start):
    model = prepare("local:tiny", build("llama").double(), tokenizer)
    model.forward.adapter = random_adapter(model)  # knows nothing, and says it with some confidence
    engine = start(model, method_options={"lexical_lossy": {"alpha": alpha}})
    got, figures = ask(engine, PROMPTS[0], "lexical_lossy")
    rows = torch.tensor([[*PROMPTS[0], *got]])
    chosen = build("llama").double()(rows).logits[0, len(PROMPTS[0]) - 1 : -1].argmax(-1)
    changed = int((chosen != torch.tensor(got)).sum())
    assert figures.changed == changed
    assert figures.divergence == changed / (len(got) - 1)
    if alpha < 0.1:
        assert changed > 5
        assert figures.tokens_per_step > 1.2


def test_a_run_goes_on_where_it_stopped(model, texts, tmp_path):
    plan = replace(PLAN, steps=4, save_every=1e9)
    whole, half = (Trainer(plan, model, texts, tmp_path / name, base="weights") for name in ("whole", "half"))
    for _ in range(4):
        whole.step()
    half.step()
    half.step()
    half.save()
    rest = Trainer(plan, model, texts, tmp_path / "half", base="weights")
    assert rest.number == 2
    rest.step()
    rest.step()
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, rest.tensors[name]), name
    with pytest.raises(SettingsError, match="belongs to other weights"):
        Trainer(plan, model, texts, tmp_path / "half", base="others")


def test_continuations_go_on_behind_their_prompts_and_are_kept(model, texts, tmp_path):
    assert [text.tokens[: text.learned] for text in texts._own] == [list(PROMPTS[0])]
    assert len(texts._own[0].tokens) == len(PROMPTS[0]) + 160
    keep(tmp_path / "own.json", texts._own)
    assert kept(tmp_path / "own.json") == texts._own


def test_a_model_of_another_family_cannot_be_trained(loaded, texts, tmp_path):
    with pytest.raises(SettingsError, match="gemma2 cannot have an adapter"):
        Trainer(PLAN, loaded("gemma2"), texts, tmp_path)


def test_the_command_writes_an_adapter_that_the_engine_takes(tokenizer, tmp_path, capsys):
    folder, source = tmp_path / "model", tmp_path / "texts"
    build("llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    source.mkdir()
    name = f"local:{folder}"
    base = ["--model", name, "--folder", str(tmp_path / "run"), "--steps", "2", "--own", "3", "--threads", "1"]
    with pytest.raises(SystemExit, match="holds no text"):
        main([*base, "--texts", str(source)])
    (source / "bicycle.txt").write_text("The bicycle needs oil, air and a dry place.\n" * 9)
    main([*base, "--texts", str(source)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"training on cpu in {str(load_model(find_source(name), packed=False).dtype)[6:]}, threads: 1"
    assert any("wrote" in line for line in lines)
    assert (folder / FILE).stat().st_size < 2_000_000
    engine = Engine(load_model(find_source(name), dtype="float32"), threads=1)
    try:
        assert ask(engine, PROMPTS[0], "lexical")[0] == ask(engine, PROMPTS[0], "autoregressive")[0]
    finally:
        engine.close()


def test_the_weights_of_a_gguf_file_are_unpacked_into_a_folder_with_the_adapter(tokenizer, tmp_path):
    path, source, folder = tmp_path / "model.gguf", tmp_path / "texts", tmp_path / "unpacked"
    write_gguf(path, build("llama"), tokenizer)
    source.mkdir()
    (source / "bicycle.py").write_text("def oil(chain):\n    return chain + 1\n" * 9)
    base = ["--model", f"local:{path}", "--texts", str(source), "--folder", str(tmp_path / "run"), "--device", "cpu"]
    with pytest.raises(SystemExit, match="Name a folder"):
        main(base)
    main([*base, "--unpacked", str(folder), "--steps", "1", "--own", "4", "--threads", "1"])
    model = load_model(find_source(f"local:{folder}"), dtype="float32")
    assert attach(model) == 3
    assert torch.equal(model.forward.read_in(torch.arange(5, 9)), build("llama").model.embed_tokens.weight[5:9])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "local:owner/model"], "is a hub name"),
        (["--model", "local:{folder}"], "needs --texts"),
        (["--tokens", "1"], "has at least 2"),
    ],
)
def test_a_command_that_cannot_be_run_says_why(arguments, message, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit, match=message):
        main([argument.format(folder=tmp_path) for argument in arguments])
