"""An engine that nobody refers to any more ends, and its model is freed; not before its requests have."""

import gc
import threading
import weakref
from dataclasses import replace

from asking import PROMPTS, tokens
from patience import patience
from tiny_models import build

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.serving.engine import Engine


def thread_of(name):
    return next((thread for thread in threading.enumerate() if thread.name == f"stretto engine {name}"), None)


def test_a_forgotten_engine_ends_its_thread_and_frees_its_model(tokenizer):
    model = prepare("local:forgotten", build("llama"), tokenizer)
    weights = weakref.ref(model.forward)
    engine = Engine(model)
    assert len(tokens(engine.submit(Generation(PROMPTS[0], 5)))) == 5
    thread = thread_of("local:forgotten")
    assert thread is not None
    del engine, model
    gc.collect()
    thread.join(patience(60))
    assert not thread.is_alive()
    del thread
    gc.collect()
    assert weights() is None


def test_a_forgotten_engine_ends_only_after_its_requests(tokenizer):
    model = replace(prepare("local:busy", build("llama"), tokenizer), end_ids=frozenset())
    expected = len(tokens(handle := Engine(model).submit(Generation(PROMPTS[0], 60))))
    assert expected == 60
    thread = thread_of("local:busy")
    assert thread is not None
    del handle
    gc.collect()
    thread.join(patience(60))
    assert not thread.is_alive()
