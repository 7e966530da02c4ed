"""Whatever the engine's thread raises, every request learns of its end, and no wait for the thread is endless."""

import logging
import queue
import sys
import threading
from dataclasses import replace

import pytest
import warm
from asking import PROMPTS, tokens
from forwards import Watched
from patience import patience
from wild_drafters import RandomTrees

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.serving import thread as serving_thread
from stretto.local_engine.serving.compiled_code import CompiledCode
from stretto.local_engine.serving.scheduler import Scheduler
from stretto.values.errors import BackendError


def ended(engine, request, **options):
    """How a request ended; it is an error here if it does not."""
    events = queue.SimpleQueue()
    engine.submit(request, events.put, **options)
    while True:
        event = events.get(timeout=patience(60))
        if isinstance(event, Finished):
            return event


def raising(error):
    def work(*_, **__):
        raise error

    return work


class Leaving(RandomTrees):
    name = "leaving"

    def propose(self, context, rows):  # noqa: ARG002 - a drafter takes them
        raise SystemExit("enough")


def broken_forward(model):
    left = [4]

    def forward(rows, cache, keep):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt("stop")
        return model.forward(rows, cache, keep)

    return replace(model, forward=Watched(model.forward, forward))


def test_a_drafter_that_leaves_the_program_ends_its_request_with_the_cause_and_the_engine_serves_on(loaded, start):
    engine = start(loaded("llama"), drafters=DRAFTERS | {"leaving": lambda _: Leaving()})
    expected = tokens(engine.submit(Generation(PROMPTS[0], 12)))
    end = ended(engine, Generation(PROMPTS[0], 12, decoding="leaving"))
    assert str(end.error) == "local:llama failed while generating: SystemExit: enough"
    assert tokens(engine.submit(Generation(PROMPTS[0], 12))) == expected


def test_a_forward_that_raises_no_exception_but_an_exit_ends_its_request_with_the_cause(loaded, start):
    engine = start(broken_forward(loaded("llama")))
    assert "KeyboardInterrupt: stop" in str(ended(engine, Generation(PROMPTS[0], 12)).error)
    assert ended(engine, Generation(PROMPTS[0], 5)).reason in ("stop", "length")


@pytest.mark.parametrize("raised", [RuntimeError("broken"), SystemExit("broken")])
@pytest.mark.parametrize(
    "place",
    [
        (Scheduler, "choose"),
        (Scheduler, "admit"),
        (Scheduler, "_work"),
        (Scheduler, "turn"),
        (serving_thread, "fitting_together"),
        (serving_thread.EngineThread, "_advance_alongside"),
    ],
    ids=lambda place: place[1],
)
def test_a_failure_in_any_part_of_the_thread_leaves_no_request_hanging(place, raised, loaded, start, monkeypatch):
    engine = start(loaded("llama"))
    assert ended(engine, Generation(PROMPTS[0], 3)).error is None
    with monkeypatch.context() as patch:
        patch.setattr(*place, raising(raised))
        with pytest.raises(BackendError, match="broken"):  # the request, or the engine that has ended meanwhile
            for _ in range(4):
                if (error := ended(engine, Generation(PROMPTS[0], 3)).error) is not None:
                    raise error


def test_a_failure_that_lasts_ends_the_engine_and_later_requests_are_refused_with_the_cause(
    loaded, start, monkeypatch, caplog
):
    engine = start(loaded("llama"))
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Scheduler, "turn", raising(ValueError("the batch is torn")))
        for _ in range(2):
            assert "the batch is torn" in str(ended(engine, Generation(PROMPTS[0], 3)).error)
    assert ended(engine, Generation(PROMPTS[0], 3)).error is None  # it has not failed three times
    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "fail", raising(ValueError("worse")))
        patch.setattr(Scheduler, "turn", raising(ValueError("the batch is torn")))
        engine.submit(Generation(PROMPTS[0], 3), lambda _: None)
        engine._serving._thread.join(patience(60))
    with pytest.raises(BackendError, match=r"The engine of local:llama has ended.* ValueError: worse Make a new one"):
        engine.submit(Generation(PROMPTS[0], 3))
    engine.close()


def test_work_alongside_that_leaves_the_program_does_not_end_the_requests_behind_it(loaded, start):
    engine = start(loaded("llama"))

    def leave():
        yield
        raise SystemExit("enough")

    work = leave()
    next(work)
    engine.run_alongside(work)
    assert ended(engine, Generation(PROMPTS[0], 3)) is not None
    assert ended(engine, Generation(PROMPTS[0], 3)).error is None


def test_a_table_of_costs_that_cannot_be_fitted_leaves_no_request_hanging(loaded, start, monkeypatch):
    monkeypatch.setattr(StepCost, "fit", raising(ValueError("no table")))
    engine = start(loaded("llama"), measure=True)
    waiting = threading.Thread(target=engine.wait_measured, daemon=True)
    waiting.start()
    waiting.join(patience(60))
    assert not waiting.is_alive()
    assert ended(engine, Generation(PROMPTS[0], 3)).error is None


def test_a_change_of_code_that_fails_leaves_no_request_hanging(loaded, start, monkeypatch):
    monkeypatch.setattr(CompiledCode, "due", property(lambda _: next(due)))
    monkeypatch.setattr(CompiledCode, "change", raising(OSError("no such code")))
    due = iter([False, True, *[False] * 10_000])
    engine = start(loaded("llama"))
    assert ended(engine, Generation(PROMPTS[0], 3)) is not None
    assert ended(engine, Generation(PROMPTS[0], 3)).error is None


def test_a_log_that_fails_as_a_request_ends_does_not_keep_the_end_from_it(loaded, start):
    engine, logger = start(loaded("llama")), logging.getLogger(serving_thread.__package__)
    level, failing = logger.level, raising(RuntimeError("no disk"))
    logger.addFilter(failing)
    logger.setLevel(logging.INFO)
    try:
        assert ended(engine, Generation(PROMPTS[0], 3)).error is None
    finally:
        logger.removeFilter(failing)
        logger.setLevel(level)
    assert ended(engine, Generation(PROMPTS[0], 3)).error is None


class Hanging(RandomTrees):
    name = "hanging"

    def __init__(self, hangs, release):
        super().__init__()
        self.hangs, self.release = hangs, release

    def propose(self, context, rows):
        self.hangs.set()
        self.release.wait(patience(60))
        return super().propose(context, rows)


def test_an_engine_whose_drafter_hangs_can_be_closed_and_tells_its_request_of_the_end_when_it_goes_on(
    loaded, start, monkeypatch
):
    monkeypatch.setattr(serving_thread, "_CLOSE_S", 0.01)
    hangs, release, events = threading.Event(), threading.Event(), queue.SimpleQueue()
    engine = start(loaded("llama"), drafters=DRAFTERS | {"hanging": lambda _: Hanging(hangs, release)})
    engine.submit(Generation(PROMPTS[0], 5, decoding="hanging"), events.put)
    assert hangs.wait(patience(60))
    engine.close()
    assert not release.is_set()
    with pytest.raises(BackendError, match="is closed"):
        engine.submit(Generation(PROMPTS[0], 5))
    release.set()
    while not isinstance(event := events.get(timeout=patience(60)), Finished):
        pass
    assert event.reason == "cancelled"


@pytest.mark.thorough
def test_a_program_whose_drafter_hangs_for_ever_ends_after_it_has_closed_the_engine():
    code = """
import threading
from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving import thread
from stretto.local_engine.serving.engine import Engine
from stretto.foundation import ending_thread

thread._CLOSE_S = ending_thread._PATIENCE_S = 0.2
hangs = threading.Event()

class Hanging(Autoregressive):
    def propose(self, context, rows):  # noqa: ARG002 - a drafter takes them
        hangs.set()
        threading.Event().wait()

engine = Engine(load_model(find_source("local:pocket"), compiled=False), drafters=DRAFTERS | {"h": lambda _: Hanging()})
engine.submit(Generation((5, 6, 7), 5, decoding="h"))
hangs.wait()
engine.close()
print("closed")
"""
    done = warm.run([sys.executable, "-c", code], timeout=patience(300), local=True)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr
