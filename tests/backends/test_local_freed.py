"""A closed local backend frees its weights at once, without a garbage collection, though it is still referred to."""

import gc
import weakref

import pytest
from saved_models import collect, opened

from stretto import AsyncStretto, Stretto
from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.drafting import catalogue
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.kernels.panels import Panels
from stretto.values.errors import BackendError, StrettoError

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


@pytest.fixture(autouse=True)
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def leaving(monkeypatch):
    """A decoding method that ends its request with an error."""

    class Leaving(Autoregressive):
        def propose(self, context, rows):  # noqa: ARG002 - a drafter takes them
            raise SystemExit("enough")

    monkeypatch.setitem(catalogue.DRAFTERS, "leaving", lambda _: Leaving())
    catalogue.all_drafters.cache_clear()
    yield
    catalogue.all_drafters.cache_clear()


def weights_of(backend):
    """Weak references to the largest weight, and to the embedding."""
    forward = backend._loader.engine.model.forward
    return tuple(
        weakref.ref(getattr(each, "held", each)) for each in (forward.weights.vocabulary, forward.weights.embedding)
    )


def held(weights):
    return [ref for ref in weights if ref() is not None]


async def test_after_answers(folder):
    async with opened(folder) as backend:
        for decoding in ("autoregressive", "auto"):
            await collect(backend, max_tokens=8, decoding=decoding)
        weights = weights_of(backend)
        await backend.aclose()
        assert held(weights) == []


async def test_after_errors_that_somebody_keeps(folder, leaving):
    kept = []
    async with opened(folder) as backend:
        await collect(backend, max_tokens=8)
        weights = weights_of(backend)
        for options in ({"decoding": "leaving"}, {"max_tokens": 5, "decoding": "unknown"}):
            with pytest.raises(StrettoError) as caught:
                await collect(backend, **options)
            kept.append(caught.value)
        with pytest.raises(BackendError, match="window") as caught:
            await collect(backend, question="word " * 5000)
        kept.append(caught.value)
        await backend.aclose()
        assert held(weights) == []


async def test_after_an_answer_of_a_client_that_broke(folder, leaving):
    backend = LocalBackend(f"local:{folder}", dtype="float32", device="cpu")
    async with AsyncStretto(backend) as stretto:
        await stretto.ask("Why?", strategy="direct", max_tokens=5)
        weights = weights_of(backend)
        with pytest.raises(StrettoError):
            await stretto.ask("Why?", strategy="direct", decoding="leaving")
    await backend.aclose()
    assert held(weights) == []


def panels():
    """Weights in compiled models of this process; others may be there."""
    return sum(type(each) is Panels for each in gc.get_objects())


def test_cycles_of_the_pocket_model_stay_flat():
    before = panels()
    for _ in range(2):
        with Stretto("local:pocket") as stretto:
            stretto.ask("How do I look after a bicycle?", max_tokens=30)
        assert panels() <= before
