"""Focus reading, against transformers' own code run slowly and in the order of the paper."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from tiny_models import VOCABULARY, build
from transformers import DynamicCache

from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, READING_FILE, fingerprint
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.research.focus.changed_layers import attention, attention_of_one
from stretto.local_engine.research.focus.document_chunks import cut
from stretto.local_engine.research.focus.focus import FocusReader, candidates
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter, new_tensors, read_focus, write_focus
from stretto.local_engine.serving.long_prompts import FocusOptions
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough

CPU = torch.device("cpu")
MODELS = ["llama", "qwen2", "qwen3", "mistral"]
DOCUMENT = [(7 * place * place + 3 * place) % (VOCABULARY - 5) + 5 for place in range(90)]
LOCAL = [(11 * place) % (VOCABULARY - 5) + 5 for place in range(12)]
ANSWER = [17, 230, 45]
OPTIONS = FocusOptions(chunk=24, overlap=5, appended=8)


def adapter_of(forward, rank, scale=0.2):
    generator = torch.Generator().manual_seed(3)
    tensors = {
        name: torch.randn(tensor.shape, generator=generator) * (scale / tensor.shape[1] ** 0.5)
        for name, tensor in new_tensors(forward, rank).items()
    }
    return FocusAdapter.of(tensors)


def changed(model, adapter):
    """A copy of a transformers model whose projections are those of candidate positions."""
    other = copy.deepcopy(model)
    if adapter is None:
        return other
    for layer, change in zip(other.model.layers, adapter.layers, strict=True):
        own = layer.self_attn
        whole = [
            each.outer if each.inner is None else each.outer @ each.inner
            for each in (change.query_key_value, change.output)
        ]
        sizes = [len(each.weight) for each in (own.q_proj, own.k_proj, own.v_proj)]
        for module, part in zip((own.q_proj, own.k_proj, own.v_proj), whole[0].split(sizes), strict=True):
            module.weight.data = module.weight.data + part
        own.o_proj.weight.data = own.o_proj.weight.data + whole[1]
    return other


@torch.no_grad()
def reference(model, candidate_model, chunks, behind, local, *, head=()):
    """Logits behind the local context: chunk by chunk, keys before their rotation, nothing cached between calls."""
    rotary = model.model.rotary_emb
    keys_before = {}
    hooks = []
    for number, layer in enumerate(candidate_model.model.layers):
        source = getattr(layer.self_attn, "k_norm", layer.self_attn.k_proj)
        hooks.append(
            source.register_forward_hook(lambda _, __, out, number=number: keys_before.__setitem__(number, out))
        )
    layers = len(model.model.layers)
    keys, values = [[] for _ in range(layers)], [[] for _ in range(layers)]
    for place, chunk in enumerate(chunks):
        cache = DynamicCache()
        tokens = [*chunk, *behind]
        model(torch.tensor([tokens[:-1]]), past_key_values=cache)
        candidate_model(
            torch.tensor([tokens[-1:]]), past_key_values=cache, position_ids=torch.tensor([[len(tokens) - 1]])
        )
        for number in range(layers):
            value = cache.layers[number].values[:, :, -1:]
            key = keys_before[number].view(1, 1, value.shape[1], value.shape[3]).transpose(1, 2)
            cosine, sine = rotary(value, torch.tensor([[len(head) + place]]))
            first, second = key.chunk(2, -1)
            keys[number].append(key * cosine + torch.cat((-second, first), -1) * sine)
            values[number].append(value)
    for hook in hooks:
        hook.remove()
    past = DynamicCache()
    if head:
        model(torch.tensor([[*head]]), past_key_values=past)
    for number in range(layers):
        past.update(torch.cat(keys[number], 2), torch.cat(values[number], 2), number)
    count = len(head) + len(chunks)
    positions = torch.arange(count, count + len(local))[None]
    return model(torch.tensor([[*local]]), past_key_values=past, position_ids=positions).logits[0, -1]


def last(reader, local, answer=()):
    with torch.inference_mode():
        *_, logits = reader.read(local, answer)
    return logits


def reader_of(loaded, adapter, document=DOCUMENT, options=OPTIONS, **more):
    return FocusReader(loaded.forward, adapter, document, options, device=CPU, **more)


@pytest.mark.parametrize("rank", [None, 4], ids=["whole", "low rank"])
@pytest.mark.parametrize("architecture", MODELS)
def test_focus_reading_computes_what_plain_code_computes(architecture, rank, loaded):
    model = build(architecture)
    ready = loaded(architecture)
    for adapter in (None, adapter_of(ready.forward, rank)):
        for document in (DOCUMENT[:20], DOCUMENT):  # one chunk, and several
            chunks = cut(document, OPTIONS.chunk, OPTIONS.overlap)
            expected = reference(model, changed(model, adapter), chunks, LOCAL[-OPTIONS.appended :], LOCAL)
            got = last(reader_of(ready, adapter, document), LOCAL)
            assert torch.allclose(got, expected, atol=2e-4), (got - expected).abs().max()


@pytest.mark.parametrize("architecture", MODELS)
def test_the_next_tokens_are_those_of_reading_everything_anew(architecture, loaded):
    model, ready = build(architecture), loaded(architecture)
    adapter = adapter_of(ready.forward, 4)
    reader = reader_of(ready, adapter)
    for count in range(len(ANSWER) + 1):
        answer = ANSWER[:count]
        behind = [*LOCAL[-OPTIONS.appended :], *answer]
        expected = reference(
            model, changed(model, adapter), cut(DOCUMENT, OPTIONS.chunk, OPTIONS.overlap), behind, [*LOCAL, *answer]
        )
        assert torch.allclose(last(reader, LOCAL, answer), expected, atol=2e-4)


@given(
    length=st.integers(0, 90),
    chunk=st.integers(1, 40),
    appended=st.integers(1, 14),
    rows=st.integers(1, 200),
    local=st.integers(1, 12),
    kept=st.sampled_from([0, 20_000, 2**30]),
)
def test_neither_batching_nor_keeping_changes_a_token(  # noqa: PLR0917 - hypothesis gives them by name
    length, chunk, appended, rows, local, kept, loaded
):
    ready = loaded("llama")
    adapter = adapter_of(ready.forward, 4)
    together = FocusOptions(chunk=chunk, overlap=chunk // 4, appended=appended, rows=rows, kept_bytes=kept)
    alone = FocusOptions(chunk=chunk, overlap=chunk // 4, appended=appended, rows=1, kept_bytes=0)
    reader, tokens = reader_of(ready, adapter, DOCUMENT[:length], together), LOCAL[:local]
    assert all(group.kept for group in reader.chunks.groups) or kept < 2**30
    for count in range(3):
        fresh = reader_of(ready, adapter, DOCUMENT[:length], alone)  # one chunk a forward, from the beginning
        assert torch.allclose(last(reader, tokens, ANSWER[:count]), last(fresh, tokens, ANSWER[:count]), atol=1e-4)


def test_the_next_question_reads_no_chunk_again(tokenizer):
    ready = prepare("local:counted", build("llama"), tokenizer)
    read = []

    class Counted:
        def __getattr__(self, name):
            return getattr(ready.forward, name)

        def __call__(self, rows, cache, keep):
            read.append(rows.tokens.numel())
            return ready.forward(rows, cache, keep)

    chunks, other = cut(DOCUMENT, OPTIONS.chunk, OPTIONS.overlap), [*LOCAL[:3], 9, 8, 7]
    reader = FocusReader(Counted(), None, DOCUMENT, OPTIONS, device=CPU)
    last(reader, LOCAL)
    assert sum(read) == sum(map(len, chunks)) + len(chunks) * (OPTIONS.appended - 1) + len(LOCAL)
    read.clear()
    second = last(reader, other)
    assert sum(read) == len(chunks) * (len(other) - 1) + len(other)
    assert torch.allclose(second, last(reader_of(ready, None), other), atol=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_candidates_of_several_positions_are_those_of_each_alone(architecture, loaded):
    forward = loaded(architecture).forward
    changes, cache, count = adapter_of(forward, 4).layers, KeyValueCache(3), 20
    text = torch.tensor([DOCUMENT[start : start + count] for start in (0, 20, 40)])
    ranks = torch.tensor([0, 3, 7])
    with torch.inference_mode():
        forward(Rows(text, torch.arange(count).repeat(3, 1), count), cache, torch.tensor([count - 1]))
        slots = torch.tensor([14, 15, 19])
        every, _ = candidates(forward, changes, text[:, slots], cache, slots=slots, ranks=ranks)
        for row, slot in enumerate(slots):
            one, _ = candidates(forward, changes, text[:, [slot]], cache, slots=slot[None], ranks=ranks)
            for kind in (0, 1):
                for together, alone in zip(every[kind], one[kind], strict=True):
                    assert torch.allclose(together[:, row], alone[:, 0], atol=1e-5)


def test_an_adapter_beside_the_weights_does_not_change_their_fingerprint(tmp_path):
    build("llama").save_pretrained(tmp_path)
    before = fingerprint(tmp_path)
    save_file({"change": torch.ones(2)}, tmp_path / FOCUS_FILE, metadata={"base": before})
    assert fingerprint(tmp_path) == fingerprint(tmp_path, reading=True) == before
    save_file({"change": torch.ones(3)}, tmp_path / READING_FILE, metadata={"base": before})
    assert fingerprint(tmp_path) == before
    assert fingerprint(tmp_path, reading=True) != before


def test_a_head_stands_before_each_chunk_and_before_all_candidates(loaded):
    model, ready = build("llama"), loaded("llama")
    chunks = [(1, *chunk) for chunk in cut(DOCUMENT, OPTIONS.chunk, OPTIONS.overlap)]
    expected = reference(model, changed(model, None), chunks, LOCAL[-OPTIONS.appended :], LOCAL, head=[1])
    assert torch.allclose(last(reader_of(ready, None, head=[1]), LOCAL), expected, atol=2e-4)


@given(length=st.integers(0, 500), longest=st.integers(1, 60), data=st.data())
def test_chunks_are_the_whole_document_in_equal_parts(length, longest, data):
    overlap = data.draw(st.integers(0, longest - 1))
    chunks = cut(range(length), longest, overlap)
    rest = [token for chunk in chunks[1:] for token in chunk[overlap:]]
    assert [*(chunks[0] if chunks else ()), *rest] == list(range(length))
    assert all(chunk[:overlap] == before[len(before) - overlap :] for before, chunk in pairwise(chunks))
    assert all(0 < len(chunk) <= longest for chunk in chunks)
    assert len({len(chunk) for chunk in chunks}) <= 2


@pytest.mark.parametrize("rank", [None, 4])
def test_an_adapter_is_read_back_for_the_weights_it_was_trained_on(rank, loaded, tmp_path):
    forward, path = loaded("llama").forward, tmp_path / "focus.safetensors"
    adapter = adapter_of(forward, rank)
    write_focus(path, FocusAdapter(adapter.layers, 128, 32), "a" * 64)
    got = read_focus(path, "a" * 64, "local:tiny", forward, CPU)
    assert (got.chunk, got.appended) == (128, 32)
    for name, tensor in adapter.tensors().items():
        assert (got.tensors()[name] - tensor).abs().max() <= 0.51 * tensor.abs().max() / 7, name  # half a step
    with pytest.raises(SettingsError, match="trained on other weights"):
        read_focus(path, "b" * 64, "local:tiny", forward, CPU)
    with pytest.raises(SettingsError, match="is missing"):
        read_focus(tmp_path / "none", "a" * 64, "local:tiny", forward, CPU)
    with pytest.raises(SettingsError, match="does not fit the sizes"):
        write_focus(path, FocusAdapter(adapter.layers[:1]), "a" * 64)
        read_focus(path, "a" * 64, "local:tiny", forward, CPU)
    path.write_bytes(b"nothing")
    with pytest.raises(SettingsError, match="is no adapter"):
        read_focus(path, "a" * 64, "local:tiny", forward, CPU)


def test_a_row_that_sees_a_cache_and_itself_mixes_what_attention_over_both_does():
    generator = torch.Generator().manual_seed(4)
    queries = torch.randn(3, 1, 4, 8, generator=generator)
    storage = torch.randn(2, 3, 20, 2, 8, generator=generator)
    keys, values = torch.randn(2, 3, 1, 2, 8, generator=generator)
    past = (storage[0][:, :13], storage[1][:, :13])  # views, as those of a cache
    together = (torch.cat((past[0], keys), 1), torch.cat((past[1], values), 1))
    assert torch.allclose(attention_of_one(queries, past, keys, values), attention(queries, *together)[0], atol=1e-6)


@given(length=st.integers(0, 3000), longest=st.integers(2, 60))
def test_chunks_of_one_length_stand_together_because_they_are_read_together(length, longest):
    sizes = [len(chunk) for chunk in cut(range(length), longest, longest // 3)]
    assert sizes == sorted(sizes, reverse=True)
