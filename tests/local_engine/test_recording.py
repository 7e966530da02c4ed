"""On a GPU, steps are recorded while the model is loaded, unless somebody does not want it or it does not work."""

import inspect
import logging

import pytest
import torch
from pretend_gpu import CUDA, PretendGPU, afar, move_to_pretend_gpu, on_pretend_gpu
from recording import Recordings
from tiny_models import WINDOW, build

from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.graphs.recorded_steps import GraphedForward, recorded
from stretto.local_engine.model.loading.load import load_model, prepare
from stretto.local_engine.serving.batch import Batch
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence

pytestmark = pytest.mark.thorough

SLOTS = 4 * 1024  # a quarter has room for the shortest storage and no batch


@pytest.fixture(scope="module")
def host(tokenizer):
    return prepare("local:llama", build("llama"), tokenizer, packed=False)


class FarRecordings(Recordings):
    """What is repeated gives tensors of the pretended GPU."""

    def __call__(self, run):
        replay = super().__call__(run)
        return lambda: afar(replay())


def record(forward, recorder, wanted=None, device=CUDA):
    return recorded(
        forward, device, wanted=wanted, tolerance=1e-2, slots=SLOTS, longest=WINDOW, record=recorder, seconds=600
    )


def test_by_default_the_steps_are_recorded_before_the_first_request(host):
    far = on_pretend_gpu(build("llama"), host)
    recordings = FarRecordings()
    request = Generation(tuple(range(20, 40)), 30, temperature=0.8, seed=3)
    with PretendGPU() as gpu, torch.inference_mode():
        forward, left = record(far.forward, recordings)
        assert isinstance(forward, GraphedForward)
        assert left == SLOTS * 3 // 4
        made = recordings.made
        assert forward.steps == made == 8, "one for each number of rows"
        answer, copies = ask(forward, CUDA, request, gpu)
    assert recordings.made == made
    assert recordings.repeated > made
    assert max(copies) <= 2
    with torch.inference_mode():
        assert ask(host.forward, host.device, request)[0] == answer


def ask(forward, device, request, gpu=None):
    """One answer; and the copies to the host of each step."""
    sequence, copies = Sequence(request, lambda ids: " ".join(map(str, ids))), []
    prefill, batch = Prefill(forward, [sequence], device), Batch(forward, device)
    prefill.advance()
    ended = sequence.accept(batch.join(prefill, [DRAFTERS["lookahead"](DraftEquipment())])[0])[1]
    while not ended:
        if gpu is not None:
            gpu.reset()
        ended = sequence.accept(batch.advance()[0])[1]
        copies.append(0 if gpu is None else gpu.counts["copies to the host"])
    return sequence.generated, copies


def test_the_default_is_the_devices_at_every_door():
    for door in (LocalBackend, load_model, prepare):
        assert inspect.signature(door).parameters["cuda_graphs"].default is None


def test_who_does_not_want_it_gets_the_plain_forward_and_all_of_the_memory(host):
    far = on_pretend_gpu(build("llama"), host)
    with PretendGPU():
        assert record(far.forward, FarRecordings(), wanted=False) == (far.forward, SLOTS)


def test_on_a_cpu_nothing_is_recorded(host):
    recordings = Recordings()
    assert record(host.forward, recordings, device=torch.device("cpu")) == (host.forward, SLOTS)
    assert recordings.made == 0


def broken(_run):
    raise RuntimeError("operation not permitted when stream is capturing")


def wrong(run):
    out = run()
    return lambda: out


@pytest.mark.parametrize(("recorder", "words"), [(broken, "not permitted"), (wrong, "gave a different result")])
def test_where_it_fails_loading_goes_on_with_the_plain_forward_and_one_line_in_the_log(recorder, words, host, caplog):
    far = on_pretend_gpu(build("llama"), host)
    with PretendGPU():
        assert record(far.forward, recorder) == (far.forward, SLOTS)
    (line,) = caplog.records
    assert words in line.message


@pytest.mark.parametrize(("wanted", "level"), [(None, logging.INFO), (True, logging.WARNING)])
def test_a_model_that_is_not_recorded_says_so_louder_if_it_was_asked_for(wanted, level, caplog):
    caplog.set_level(logging.INFO)
    general = TransformersForward(move_to_pretend_gpu(build("gpt2").eval()))
    assert record(general, FarRecordings(), wanted=wanted) == (general, SLOTS)
    (line,) = caplog.records
    assert (line.levelno, "Llama family" in line.message) == (level, True)
