import pytest
import torch
from simulated import generate, plain
from tiny_models import WINDOW, build

from stretto.local_engine.draft_tree import ROOT
from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.draft_model import DraftModel
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import prepare
from stretto.values.errors import SettingsError

PROMPT = [(7 * place + 3) % 390 + 5 for place in range(20)]


def target_of(model):
    """A model as a function from a text to its 8 most probable next tokens, without drafts or cache."""

    def target(text):
        with torch.inference_mode():
            rows = Rows(torch.tensor([text]), torch.arange(len(text))[None], len(text))
            logits = model.forward(rows, KeyValueCache(1), torch.tensor([len(text) - 1]))
        return logits[0, 0].topk(8).indices.tolist()

    return target


@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_a_model_that_drafts_for_itself_is_always_right(architecture, loaded):
    model = loaded(architecture)
    with torch.inference_mode():
        run = generate(DraftModel(model, length=4, floor=0), target_of(model), PROMPT, 30)
    assert {len(outcome.path) for outcome in run.outcomes} == {5}
    assert run.text == plain(target_of(model), PROMPT, len(run.text) - len(PROMPT))


@pytest.mark.parametrize("width", [1, 3])
def test_its_cache_goes_back_to_where_the_models_went_apart(width, loaded):
    draft, target = loaded("qwen3"), target_of(loaded("llama"))
    with torch.inference_mode():
        run = generate(DraftModel(draft, length=4, width=width, floor=0), target, PROMPT, 25, rows=20)
        fresh = DraftModel(draft, length=4, width=width, floor=0)
        again = [fresh.propose(DraftContext(run.text[:end], 20, 400), 20) for end in (30, 25, 40)]
        anew = [
            DraftModel(draft, length=4, width=width, floor=0).propose(DraftContext(run.text[:end], 20, 400), 20)
            for end in (30, 25, 40)
        ]
    assert run.text == plain(target, PROMPT, len(run.text) - len(PROMPT))
    assert [tree.tokens for tree in again] == [tree.tokens for tree in anew]
    assert all(len(tree) == 4 * width for tree in run.trees)


def test_beside_each_token_of_the_chain_stand_its_next_best(loaded):
    model = loaded("llama")
    with torch.inference_mode():
        tree = DraftModel(model, length=2, width=3, floor=0).propose(DraftContext(PROMPT, 20, 400), 10)
        limited = DraftModel(model, length=2, width=3, floor=0).propose(DraftContext(PROMPT, 20, 400), 4)
    best = target_of(model)(PROMPT)
    assert tree.tokens[:3] == best[:3]
    assert tree.tokens[3:] == target_of(model)([*PROMPT, best[0]])[:3]
    assert tree.parents == [ROOT, ROOT, ROOT, 0, 0, 0]
    assert limited.tokens == tree.tokens[:4]


def test_it_stops_where_its_chain_has_become_improbable_and_at_its_window(loaded):
    model = loaded("llama")
    with torch.inference_mode():
        assert len(DraftModel(model, floor=0.99999).propose(DraftContext(PROMPT, 20, 400), 10)) == 1
        assert len(DraftModel(model, floor=0).propose(DraftContext([9] * (WINDOW - 2), 20, 400), 10)) == 2
        assert len(DraftModel(model, floor=0).propose(DraftContext([9] * (WINDOW + 5), 20, 400), 10)) == 0


def test_a_long_prompt_is_read_in_parts(loaded, monkeypatch):
    model = loaded("llama")
    with torch.inference_mode():
        whole = DraftModel(model, floor=0).propose(DraftContext(PROMPT * 5, 20, 400), 10)
        monkeypatch.setattr("stretto.local_engine.drafting.draft_model._READ_AT_ONCE", 7)
        assert DraftModel(model, floor=0).propose(DraftContext(PROMPT * 5, 20, 400), 10).tokens == whole.tokens


def test_tokens_that_the_target_does_not_have_are_not_drafted(loaded):
    with torch.inference_mode():
        tree = DraftModel(loaded("llama"), length=3, width=4, floor=0).propose(DraftContext([5, 6, 7], 3, 10), 12)
    assert max(tree.tokens) < 10


def test_a_draft_model_with_another_tokenizer_is_refused(loaded, tokenizer):
    model = loaded("llama")
    other = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer.from_str(tokenizer.backend_tokenizer.to_str()))
    other.add_tokens(["<other>"])
    draft = prepare("local:other", build("qwen3"), other)
    with pytest.raises(
        SettingsError, match=r"local:other cannot draft for local:llama.*'<other>' is 307 there and none"
    ):
        DRAFTERS["draft_model"](DraftEquipment(model=model, draft=draft))
    assert DRAFTERS["draft_model"](DraftEquipment(model=model, draft=loaded("qwen3"))).name == "draft_model"
