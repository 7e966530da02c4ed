import gc
from weakref import ref

import pytest
import torch

from stretto.local_engine.kernels.arena import Arena
from stretto.local_engine.kernels.panels import Layout, Panels, layout_for


def test_tensors_stand_beside_each_other_and_at_the_beginning_of_a_cache_line():
    arena = Arena(4 * 300 + 2 * 50, 2)
    numbers, halves = arena.allocate((3, 100), torch.float32).fill_(7), arena.allocate((50,), torch.bfloat16).fill_(-2)
    assert halves.data_ptr() - numbers.data_ptr() == 1216
    assert (numbers == 7).all()
    assert (halves == -2).all()
    assert numbers.data_ptr() % 64 == halves.data_ptr() % 64 == 0


def test_there_is_room_for_all_weights_it_was_made_for_and_no_more():
    weights = [torch.randn(rows, 24).bfloat16().float() for rows in (16, 40, 1)]
    layout = layout_for(weights)
    arena = layout.arena
    assert layout == Layout(torch.bfloat16, arena=arena)
    assert arena is not None
    for weight in weights:
        assert torch.equal(Panels.of(weight, layout).dense(), weight)
    with pytest.raises(ValueError, match="no room"):
        arena.allocate((10_000,), torch.float32)


def test_where_there_is_no_such_memory_weights_stand_for_themselves():
    endless = torch.empty(1, 1, dtype=torch.float16).expand(2**44, 16)
    assert layout_for([endless]) == Layout(torch.float16)


@pytest.mark.thorough
def test_memory_stays_as_long_as_a_tensor_that_stands_in_it():
    arena = Arena(4096, 1)
    memory, tensor = ref(arena._memory), arena.allocate((1024,), torch.float32).fill_(3)
    del arena
    gc.collect()
    assert memory() is not None
    assert tensor.sum() == 3072
    del tensor
    gc.collect()
    assert memory() is None
