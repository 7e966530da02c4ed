import math
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import warm
from asking import PROMPTS, SHARED, outcome, submit_together, tokens
from forwards import Watched
from patience import patience
from tiny_models import WINDOW, build
from transformers import LlamaForCausalLM

from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.kernels.compiling.store import Store
from stretto.local_engine.model.loading import kept_data
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.serving import step_timing as measure
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import BackendError, ContextOverflowError, InvalidRequestError, RequestRejectedError

ARCHITECTURES = ["llama", "qwen3", "mistral", "gemma2", "gpt2"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_alone_it_generates_what_transformers_generates(architecture, loaded, start):
    model, prompt = build(architecture).eval(), PROMPTS[2]
    with torch.inference_mode():
        expected = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
    engine = start(loaded(architecture))
    assert tokens(engine.submit(Generation(prompt, 24))) == expected[0, len(prompt) :].tolist()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_batch_gives_each_request_what_it_gets_alone(architecture, loaded, start):
    engine = start(loaded(architecture))
    requests = [Generation(prompt, 12 + 7 * i) for i, prompt in enumerate(PROMPTS)]
    alone = [tokens(engine.submit(request)) for request in requests]
    handles = submit_together(engine, requests)
    assert [tokens(handle) for handle in handles] == alone
    assert len({tuple(ids) for ids in alone}) > 1
    assert sorted(handle.sequence.cached for handle in handles) == [0, *(len(SHARED),) * 4]


def test_a_sampled_request_gets_the_same_whoever_shares_the_batch(loaded, start):
    engine = start(loaded("llama"))
    ours = Generation(PROMPTS[0], 30, temperature=0.8, top_p=0.95, seed=42)
    alone = tokens(engine.submit(ours))
    others = [Generation(PROMPTS[1], 10, temperature=1.0, seed=1), Generation(PROMPTS[2], 20)]
    assert tokens(submit_together(engine, [*others, ours])[2]) == alone
    other_seed = Generation(PROMPTS[0], 30, temperature=0.8, top_p=0.95, seed=43)
    assert tokens(engine.submit(other_seed)) != alone


def test_prompts_without_a_common_beginning_run_together(loaded, start):
    engine = start(loaded("llama"))
    requests = [Generation((5 + i, 6, 7)[: i + 1], 10) for i in range(3)]
    alone = [tokens(engine.submit(request)) for request in requests]
    assert [tokens(handle) for handle in submit_together(engine, requests)] == alone


def test_a_long_prompt_is_read_in_several_forwards(loaded, start):
    engine = start(loaded("mistral"))
    requests = [Generation(PROMPTS[0] * 6, 10), Generation(PROMPTS[0] * 5 + (9,), 10), Generation((8, 9), 10)]
    whole = [tokens(engine.submit(request)) for request in requests]
    engine = start(loaded("mistral"), prefill_tokens=16)
    assert [tokens(engine.submit(request)) for request in requests] == whole
    assert [tokens(handle) for handle in submit_together(engine, requests)] == whole
    assert [tokens(handle) for handle in submit_together(engine, requests[:2])] == whole[:2]


def test_the_pieces_are_the_text_of_the_tokens(loaded, start, tokenizer):
    engine = start(loaded("llama"))
    for seed in range(5):
        handle = engine.submit(Generation(PROMPTS[0], 60, temperature=1.5, seed=seed))
        events = list(handle)
        text = "".join(event.text for event in events[:-1])
        whole = tokenizer.decode(handle.sequence.generated, skip_special_tokens=True)
        assert text.rstrip("\ufffd") == whole.rstrip("\ufffd")
        assert all(isinstance(event, Piece) and event.text for event in events[:-1])


def test_the_account_counts_prompt_shared_and_new_tokens(loaded, start):
    engine = start(loaded("llama"))
    first, second = submit_together(engine, [Generation(PROMPTS[0], 5), Generation(PROMPTS[1], 6)])
    assert outcome(first)[1] == Finished("length", len(PROMPTS[0]), 30, 5)
    assert outcome(second)[1] == Finished("length", len(PROMPTS[1]), 0, 6)  # the shorter one is read first


def test_an_end_token_ends_it_and_is_no_part_of_the_text(loaded, start, tokenizer):
    engine = start(loaded("llama"))
    free = tokens(engine.submit(Generation(PROMPTS[0], 20)))
    end = free[7]
    length = free.index(end)
    text, finished = outcome(engine.submit(Generation(PROMPTS[0], 20, end_ids=frozenset({end, 2}))))
    assert finished.reason == "stop"
    assert finished.completion_tokens == length + 1
    assert text.rstrip("\ufffd") == tokenizer.decode(free[:length], skip_special_tokens=True).rstrip("\ufffd")


def test_a_stop_text_ends_it_and_is_no_part_of_the_text(loaded, start):
    engine = start(loaded("llama"))
    request = Generation(PROMPTS[0], 60, temperature=1.0, seed=5)
    text, _ = outcome(engine.submit(request))
    stop = text[20:24]
    cut, finished = outcome(engine.submit(Generation(PROMPTS[0], 60, temperature=1.0, seed=5, stop=(stop,))))
    assert cut == text[: text.index(stop)]
    assert finished.reason == "stop"
    assert finished.completion_tokens < 60


def test_cancelling_a_running_request_leaves_its_batch_mates_alone(loaded, start):
    engine = start(loaded("llama"))
    expected = tokens(engine.submit(Generation(PROMPTS[1], 60)))
    with engine.announced():
        handle = engine.submit(Generation(PROMPTS[0], 200), ended := Collected())
        ended.on_piece = handle.cancel  # its first text cancels it, from the engine's own thread
        other = engine.submit(Generation(PROMPTS[1], 60))
    assert tokens(other) == expected
    assert ended.wait().reason == "cancelled"
    assert len(handle.sequence.generated) < 200


def test_cancelling_a_waiting_request_ends_it_at_once(loaded, start):
    engine = start(loaded("llama"))
    with engine.announced():
        handle = engine.submit(Generation(PROMPTS[0], 10))
        handle.cancel()
        assert [event.reason for event in handle] == ["cancelled"]
    handle.cancel()
    assert tokens(engine.submit(Generation(PROMPTS[0], 10)))


def test_more_requests_than_a_batch_holds_run_one_batch_after_the_other(loaded, start):
    engine = start(loaded("llama"), batch_size=2)
    handles = submit_together(engine, [Generation(PROMPTS[0], 6)] * 5)
    assert len({tuple(tokens(handle)) for handle in handles}) == 1
    assert [handle.sequence.cached for handle in handles] == [0, 31, 31, 31, 31]


def test_requests_that_do_not_fit_into_memory_together_run_one_after_the_other(loaded, start, tokenizer):
    engine = start(replace(loaded("llama"), cache_tokens=100))
    handles = submit_together(engine, [Generation(PROMPTS[0], 20)] * 3)
    assert [outcome(handle)[1].cached_tokens for handle in handles] == [0, 0, 0]
    with pytest.raises(RequestRejectedError, match="it can hold 100 tokens"):
        engine.submit(Generation(PROMPTS[0], 90))


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (Generation((1,) * WINDOW, 1), ContextOverflowError, f"{WINDOW} tokens.*holds {WINDOW}"),
        (Generation((1,) * 200, 100), RequestRejectedError, "Ask for at most 56"),
        (Generation((), 5), InvalidRequestError, "no tokens"),
    ],
)
def test_a_request_that_cannot_run_is_refused_with_the_reason(loaded, start, request_, error, words):
    engine = start(loaded("llama"))
    with pytest.raises(error, match=words):
        engine.submit(request_)


def test_the_whole_context_window_can_be_filled(loaded, start):
    for architecture in ("llama", "gpt2"):
        engine = start(loaded(architecture))
        assert len(tokens(engine.submit(Generation((9,) * 250, 6)))) == 6
        pair = submit_together(engine, [Generation((9,) * 250, 6), Generation((9, 8), 254)])
        assert [len(tokens(handle)) for handle in pair] == [6, 254]


class FailsOnce(LlamaForCausalLM):
    """Raises in the forward that is counted down to."""

    failure: BaseException = RuntimeError("a wire came loose")
    countdown = -1

    def forward(self, *args, **kwargs):
        self.countdown -= 1
        if self.countdown == 0:
            raise self.failure
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize("step", [1, 2, 3, 9])
@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (RuntimeError("a wire came loose"), "a wire came loose"),
        (torch.OutOfMemoryError("no"), "ran out of memory on cpu"),
    ],
)
def test_a_failing_forward_ends_its_batch_with_one_error_each_and_the_engine_serves_on(
    step, failure, words, start, tokenizer
):
    model = FailsOnce(build("llama").config)
    model.load_state_dict(build("llama").state_dict())
    model.failure = failure
    engine = start(prepare("local:frail", model, tokenizer))
    expected = tokens(engine.submit(Generation(PROMPTS[0], 20)))
    model.countdown = step
    for handle in submit_together(engine, [Generation(PROMPTS[0], 20), Generation(PROMPTS[0][::-1], 20)]):
        ends = [event for event in handle if isinstance(event, Finished)]
        assert len(ends) == 1
        assert isinstance(ends[0].error, BackendError)
        assert words in str(ends[0].error)
    assert tokens(engine.submit(Generation(PROMPTS[0], 20))) == expected


def test_a_text_that_cannot_be_decoded_ends_its_request_only(loaded, start):
    model = loaded("llama")
    engine = start(model)
    expected = tokens(engine.submit(Generation(PROMPTS[1], 20)))
    first = tokens(engine.submit(Generation(PROMPTS[0], 20)))

    def decode(ids):
        if list(ids)[:1] == first[:1]:
            raise ValueError("not in my code page")
        return model.decode(ids)

    picky = start(replace(model, decode=decode))
    bad, good = submit_together(picky, [Generation(PROMPTS[0], 20), Generation(PROMPTS[1], 20)])
    assert expected[0] != first[0]
    assert "not in my code page" in str(outcome(bad)[1].error)
    assert tokens(good) == expected


class Collected:
    """A listener that keeps what it hears."""

    def __init__(self, on_piece=lambda: None):
        self.on_piece = on_piece
        self._ended = threading.Event()
        self.events = []

    def __call__(self, event):
        self.events.append(event)
        if isinstance(event, Finished):
            self._ended.set()
        else:
            self.on_piece()

    def wait(self):
        assert self._ended.wait(patience(30))
        return self.events[-1]


def test_a_listener_that_raises_ends_its_own_request_only(loaded, start):
    engine = start(loaded("llama"))
    expected = tokens(engine.submit(Generation(PROMPTS[1], 40)))

    def broken():
        raise RuntimeError("the event loop is closed")

    with engine.announced():
        engine.submit(Generation(PROMPTS[0], 200), ended := Collected(on_piece=broken))
        other = engine.submit(Generation(PROMPTS[1], 40))
    assert tokens(other) == expected
    assert ended.wait().reason == "cancelled"


def test_closing_ends_running_and_waiting_requests_and_the_thread(loaded, start):
    before = set(threading.enumerate())
    engine = start(replace(loaded("llama"), context_window=10**7, cache_tokens=10**7), batch_size=1)
    started = threading.Event()
    with engine.announced():
        engine.submit(Generation(PROMPTS[0], 10**6), running := Collected(on_piece=started.set))
        engine.submit(Generation(PROMPTS[1], 10**6), waiting := Collected())
    assert started.wait(patience(30))
    engine.close()
    engine.close()
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile
    assert running.wait().reason == waiting.wait().reason == "cancelled"
    with pytest.raises(BackendError, match="closed"):
        engine.submit(Generation(PROMPTS[0], 5))


@pytest.mark.thorough
def test_an_interpreter_that_exits_while_the_engine_runs_exits_cleanly():
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from dataclasses import replace
from tiny_models import build
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from stretto.local_engine.serving.engine import Engine
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import prepare
letters = Tokenizer(models.BPE(vocab={chr(65 + i): i for i in range(400)}, merges=[]))
model = prepare("local:tiny", build("llama"), PreTrainedTokenizerFast(tokenizer_object=letters))
handle = Engine(replace(model, context_window=10**7, cache_tokens=10**7)).submit(Generation((1, 2, 3), 10**6))
print(bool(next(iter(handle)).text))
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    run = warm.run(command, timeout=patience(110), local=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "True\n", "")


@pytest.fixture
def all_rows_are_timed(monkeypatch):
    """On a busy machine many rows may seem too dear, and then no more are timed."""
    monkeypatch.setattr(measure, "_DEAR", float("inf"))
    monkeypatch.setattr(measure, "_LIMIT_S", float("inf"))


@pytest.mark.usefixtures("all_rows_are_timed")
def test_steps_are_timed_from_the_start_on_while_no_request_is_there(loaded, start):
    model, timed = loaded("llama"), threading.Event()
    left = [1 + 10 * 6 + 11 * 4]  # the text, then the first numbers of rows six times, and all others four times

    def forward(rows, cache, keep):
        left[0] -= 1
        if left[0] == 0:
            timed.set()
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)), measure=True)
    assert timed.wait(patience(60))
    engine.wait_measured()
    tokens(engine.submit(Generation(PROMPTS[0], 2)))
    assert set(engine.step_ms) == {1, 2, 4, 8, 16, 32, 64}
    assert left[0] == -2
    tokens(engine.submit(Generation(PROMPTS[0], 2, decoding="auto")))
    assert left[0] == -4, "it is not measured again"


@pytest.mark.usefixtures("all_rows_are_timed")
@pytest.mark.parametrize(("first_s", "rounds"), [(math.inf, [*range(1, 9), 12, 16] * 2), (-1.0, [1, 2])])
@pytest.mark.parametrize("decoding", ["autoregressive", "auto"])
def test_the_first_request_waits_for_two_rounds_at_most_and_not_for_long(  # noqa: PLR0917 - fixtures
    decoding, first_s, rounds, loaded, start, monkeypatch
):
    monkeypatch.setattr(measure, "_AT_FIRST_S", first_s)
    model, seen, handles = loaded("llama"), [], []
    ready, asked = threading.Event(), threading.Event()

    def forward(rows, cache, keep):
        seen.append(rows.tokens.shape[1])
        assert ready.wait(patience(60))
        if len(seen) == 3:
            handles.append(engine.submit(Generation(PROMPTS[0], 2, decoding=decoding)))
            asked.set()
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)), measure=True)
    ready.set()
    assert asked.wait(patience(60))
    tokens(handles[0])
    assert seen[: len(rounds) + 3] == [16, *rounds, len(PROMPTS[0]), 1]
    engine.wait_measured()
    assert set(engine.step_ms) == {1, 2, 4, 8, 16, 32, 64}
    assert seen.count(64) >= 4


@pytest.fixture
def of_a_file(loaded, tmp_path, monkeypatch):
    """A model as if it had been read from a file, for which nothing is kept yet. Compiled code is where it is."""
    store = Store(tmp_path / "kept")
    store.folder.mkdir(parents=True)
    monkeypatch.setattr(kept_data, "stores", lambda: [store])
    monkeypatch.setattr(kept_data, "writable_store", lambda: store)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    return replace(loaded("llama"), file=file)


@pytest.mark.usefixtures("all_rows_are_timed")
@pytest.mark.parametrize("changed", ["nothing", "threads", "file", "damage"])
def test_the_table_of_steps_is_kept_for_a_file_and_so_many_threads(of_a_file, tmp_path, changed, monkeypatch):
    with closing(Engine(of_a_file, threads=1, measure=True)) as first:
        first.wait_measured()
        known = first.step_ms
    (kept,) = (tmp_path / "kept").rglob("steps-*")
    monkeypatch.setattr(measure, "measuring", lambda _: iter([{}] * 3))  # nothing is timed any more
    if changed == "file":
        of_a_file.file.write_bytes(b"others")
    if changed == "damage":
        kept.write_bytes(b"damaged")
    with closing(Engine(of_a_file, threads=2 if changed == "threads" else 1, measure=True)) as again:
        again.wait_measured()
        assert again.step_ms == (known if changed == "nothing" else {})


@pytest.mark.usefixtures("all_rows_are_timed")
def test_who_begins_with_a_kept_table_times_no_step_before_the_first_request(of_a_file, monkeypatch):
    monkeypatch.setattr(measure, "_AT_FIRST_S", math.inf)
    seen, asked = [], threading.Event()

    def forward(rows, cache, keep):
        seen.append(rows.tokens.shape[1])
        assert asked.wait(patience(60))
        return of_a_file.forward(rows, cache, keep)

    watched = replace(of_a_file, forward=Watched(of_a_file.forward, forward))
    asked.set()
    with closing(Engine(watched, threads=1, measure=True)) as first:
        first.wait_measured()
    asked.clear()
    seen.clear()
    with closing(Engine(watched, threads=1, measure=True)) as again:
        handle = again.submit(Generation(PROMPTS[0], 2))
        asked.set()
        tokens(handle)
    # While nobody asked, the text or the first step may have been begun.
    assert [len(PROMPTS[0]), 1] in (seen[:2], seen[1:3], seen[2:4])


@pytest.mark.usefixtures("all_rows_are_timed")
def test_rows_are_timed_between_the_steps_of_a_request_where_there_was_no_time_before(loaded, start, monkeypatch):
    monkeypatch.setattr(measure, "_AT_FIRST_S", -1.0)
    monkeypatch.setattr(measure, "_DELAY_S", 0.0)
    monkeypatch.setattr(measure, "_SHARE", math.inf)
    model, asked, known = loaded("llama"), threading.Event(), []
    request = Generation(PROMPTS[0], 40)
    expected = tokens(start(model).submit(request))

    def forward(rows, cache, keep):
        assert asked.wait(patience(60))  # no moment is idle
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)), measure=True)
    handle = engine.submit(request, heard := Collected(on_piece=lambda: known.append(engine.step_ms)))
    asked.set()
    assert heard.wait().reason == "length"
    assert handle.sequence.generated == expected
    assert set(known[-1]) == {1, 2, 4, 8, 16, 32, 64}


def test_requests_that_ran_together_tell_what_steps_cost_before_any_are_timed(loaded, start):
    engine = start(loaded("llama"))
    tokens(engine.submit(Generation(PROMPTS[0], 4)))
    assert engine.step_ms == {}, "nothing is known of more than one row"
    for handle in submit_together(engine, [Generation(prompt, 4) for prompt in PROMPTS[:3]]):
        tokens(handle)
    assert {1, 3} <= set(engine.step_ms)  # and 2 while the third prompt was read
    assert all(ms > 0 for ms in engine.step_ms.values())


def test_what_steps_are_said_to_take_follows_every_answer(loaded, start):
    engine = start(loaded("llama"))
    engine._cost.fit({1: 10_000.0, 64: 20_000.0})  # measured while the machine was held up
    assert engine.step_ms[1] == 10_000
    tokens(engine.submit(Generation(PROMPTS[0], 8)))
    assert engine.step_ms[1] < 1_000
    assert engine.step_ms[64] == pytest.approx(2 * engine.step_ms[1])


@pytest.mark.usefixtures("all_rows_are_timed")
def test_the_first_request_with_auto_has_steps_timed_behind_it(loaded, start):
    model, seen = loaded("llama"), []

    def forward(rows, cache, keep):
        seen.append(rows.tokens.shape[1])
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)))
    tokens(engine.submit(Generation(PROMPTS[0], 2)))
    engine.wait_measured()
    assert seen == [len(PROMPTS[0]), 1]
    assert engine.step_ms == {}
    tokens(engine.submit(Generation(PROMPTS[0], 2, decoding="auto")))
    engine.wait_measured()
    assert seen[2:4] == [len(PROMPTS[0]), 1]
    assert set(engine.step_ms) == {1, 2, 4, 8, 16, 32, 64}
