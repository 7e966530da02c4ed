"""What is told while a model is being loaded."""

import logging
import os
import pty
import queue
import sys
import threading
import time
from dataclasses import replace

import pytest
from asking import tokens
from forwards import Watched
from gguf_files import write_gguf
from patience import patience
from tiny_models import SIZES
from transformers import LlamaConfig, LlamaForCausalLM

from stretto import Stretto
from stretto.backends.local import loading_notice
from stretto.backends.local.loading_notice import loading_reported
from stretto.cli.output.progress import Progress
from stretto.local import LocalBackend
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.store import Store
from stretto.local_engine.model.loading import fitting, kept_data, loading_progress
from stretto.local_engine.model.loading.fitting import bytes_in_blocks
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.loading_progress import doing, step, timed_loading
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving import request_progress
from stretto.local_engine.serving.request_progress import Wait, report_waits_of, waiting_for
from stretto.values.errors import BackendError
from stretto.values.events import RouteChosen
from stretto.values.route import Route

NAME = "local:model.gguf"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder for what is kept of models."""
    store = Store(tmp_path / "kept")
    store.folder.mkdir(parents=True)
    monkeypatch.setattr(kept_data, "stores", lambda: [store])
    monkeypatch.setattr(kept_data, "writable_store", lambda: store)


def test_each_place_tells_what_is_done_and_how_long_it_took_last_time(kept):
    assert doing(NAME) == doing() == ""
    route = Route(strategy="direct")
    for last in ("the first time", "0 s last time"):
        with timed_loading(NAME, "a file"):
            step(NAME, "laying out the weights")
            assert doing(NAME) == doing() == f"laying out the weights ({last})"
            progress = Progress(NAME, lambda: 0.0, loads=True)
            progress.see(RouteChosen(route=route))
            assert progress.phrase() == f"loading {NAME}: laying out the weights ({last}) · 0.0 s"
        assert progress.phrase() == f"waiting for {NAME} · 0.0 s"
    assert doing(NAME) == doing() == ""


def test_what_a_model_takes_and_what_is_free_is_told_from_then_on(kept):
    with timed_loading(NAME, "a file"):
        step(NAME, "reading the weights", takes_gb=5.14, free_gb=20.4)
        step(NAME, "laying out the weights")
        assert doing(NAME) == "laying out the weights (takes 5.1 GB, 20 GB free; the first time)"


def test_time_for_other_models_is_told_and_does_not_count(kept, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loading_progress.time, "monotonic", lambda: now[0])
    with timed_loading(NAME, "a file") as loading:
        with loading.waiting():
            assert doing(NAME) == "waiting for another model (the first time)"
            now[0] += 100
        now[0] += 7
    with timed_loading(NAME, "a file"):
        assert doing(NAME) == "importing libraries (7 s last time)"


@pytest.mark.parametrize("where", ["terminal", "notebook"])
def test_who_waits_is_told_of_each_change(where, kept, monkeypatch):
    reader, writer = pty.openpty() if where == "terminal" else os.pipe()
    if where == "notebook":
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(loading_notice, "_silent", threading.Event())  # tests of the command line set it for good
    monkeypatch.setattr(loading_notice, "_AFTER_S", 0)
    monkeypatch.setattr(loading_notice, "_LOOK_S", 0.001)
    monkeypatch.setattr(sys, "stderr", open(writer, "w"))  # noqa: PTH123, SIM115
    said = ""
    with loading_reported(NAME, wanted=True), timed_loading(NAME, "a file"):
        for what in ("importing libraries", "laying out the weights", "short"):
            step(NAME, what)
            while f"is still being loaded: {what} (the first time)." not in said:
                said += os.read(reader, 4096).decode()
    sys.stderr.close()
    if where == "notebook":
        while rest := os.read(reader, 4096).decode():
            said += rest
        lines = said.splitlines()
        assert [
            line.partition(": ")[2].partition(" (")[0].rpartition(": ")[2] for line in lines if "time)" in line
        ] == [
            "importing libraries",
            "laying out the weights",
            "short",
        ]
    else:
        assert "\n" not in said
        longest, last = said.split("\r")[-2:]
        assert len(last) >= len(longest) > len(last.rstrip())  # nothing of the line before is left
    os.close(reader)


class Reads:
    """An engine whose request is being read, for some seconds so far."""

    def __init__(self, so_far_s):
        self.since_s = time.perf_counter() - so_far_s

    def waits(self):
        return Wait(self.since_s, "reading the prompt, 400 of 1,000 tokens")


def test_a_prompt_that_is_read_for_long_is_told_beside_the_name_of_the_model():
    progress = Progress(NAME, lambda: 0.0)
    progress.see(RouteChosen(route=Route(strategy="direct")))
    report_waits_of(NAME, short := Reads(0.0))
    assert (progress.phrase(), waiting_for(NAME)) == (f"waiting for {NAME} · 0.0 s", "")
    report_waits_of(NAME, long := Reads(3600.0))
    assert progress.phrase() == f"waiting for {NAME}: reading the prompt, 400 of 1,000 tokens · 0.0 s"
    assert waiting_for() == waiting_for(NAME) == "reading the prompt, 400 of 1,000 tokens"
    assert waiting_for("local:other") == ""
    report_waits_of(NAME, other := Reads(0.0))
    assert waiting_for(NAME) != "", "another engine of the model hides no wait"
    del short, long, other
    assert waiting_for() == ""


def test_an_engine_tells_how_far_prompts_are_and_who_is_in_the_queue(loaded, start, monkeypatch):
    monkeypatch.setattr(request_progress, "_REPORTED_S", 0.0)
    model, told, go = replace(loaded("llama"), name=NAME), queue.SimpleQueue(), threading.Semaphore(0)

    def forward(rows, cache, keep):
        told.put(waiting_for(NAME))
        assert go.acquire(timeout=patience(60))
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)), prefill_tokens=16, batch_size=1)
    first = engine.submit(Generation(tuple(range(5, 25)), 2))
    assert told.get(timeout=patience(60)) == "reading the prompt, 0 of 20 tokens"
    second = engine.submit(Generation((5, 6, 7), 1))
    go.release(9)
    assert told.get(timeout=patience(60)) == "reading the prompt, 16 of 20 tokens"
    assert told.get(timeout=patience(60)) == "in the queue, while 1 request is running"
    assert [tokens(each) and waiting_for(NAME) for each in (first, second)][1] == ""


def test_a_loading_that_fails_is_not_taken_for_the_time_that_it_takes(kept):
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"), timed_loading(NAME, "a file"):
            assert "first time" in doing(NAME)
            raise ValueError("damaged")
    assert doing(NAME) == ""


@pytest.fixture
def file(tmp_path, tokenizer):
    sizes = SIZES | {"intermediate_size": 96}
    return write_gguf(tmp_path / "model.gguf", LlamaForCausalLM(LlamaConfig(**sizes)), tokenizer, kind="Q4_0")


def test_the_log_of_a_server_has_each_step_with_what_the_weights_take(file, kept, caplog):
    with caplog.at_level(logging.INFO), Stretto(LocalBackend(f"local:{file}")) as client:
        client.load()
    steps = [each.stretto for each in caplog.records if each.name.endswith("loading_progress")]
    assert [each["event"] for each in steps if "compiling" not in each["event"]] == [
        "reading the weights",
        "laying out the weights",
    ]
    assert steps[0]["takes_gb"] == round(bytes_in_blocks(find_source(f"local:{file}")) / 1e9, 2)
    assert steps[0]["free_gb"] > 0


def test_what_the_blocks_of_a_file_take_is_known_before_it_is_read(file):
    forward = load_model(find_source(f"local:{file}"), compiled=True).forward
    held = [
        forward.weights.vocabulary,
        forward.weights.embedding,
        *(each for layer in forward.weights.layers for each in layer.products.values()),
    ]
    blocks, told = sum(each.nbytes for each in held), bytes_in_blocks(find_source(f"local:{file}"))
    assert blocks <= told < 1.1 * blocks  # norms are in it


def test_a_file_whose_blocks_do_not_fit_is_refused_before_it_is_read(file, monkeypatch):
    size = bytes_in_blocks(find_source(f"local:{file}"))
    monkeypatch.setattr(fitting, "free_bytes", lambda _: size - 1)
    with pytest.raises(BackendError, match=r"as its file holds them, its weights take .* MB, and .* MB are free"):
        load_model(find_source(f"local:{file}"), compiled=True)
