import anyio
import pytest

from stretto.foundation.queue import Queue

pytestmark = pytest.mark.anyio


async def test_what_was_added_comes_in_its_order_and_then_the_end():
    queue = Queue[str]()
    for item in "abc":
        queue.add(item)
    queue.end()
    assert [item async for item in queue] == ["a", "b", "c"]


async def test_an_item_that_is_there_comes_before_other_tasks_have_their_turn():
    queue, turns = Queue[str](), []

    async def other():
        turns.append("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await queue.put("item")
        turns.append(await anext(queue))
    assert turns == ["item", "other"]


async def test_a_full_queue_makes_who_puts_wait_for_a_reader():
    queue, put = Queue[int](2), []

    async def write():
        for number in range(4):
            await queue.put(number)
            put.append(number)
        queue.end()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        assert put == [0, 1]
        assert [number async for number in queue] == [0, 1, 2, 3]


async def test_the_end_wakes_who_waits_for_room_or_for_an_item_and_drops_what_comes_later():
    full, empty, ended = Queue[str](1), Queue[str](), []
    full.add("kept")

    async def write():
        await full.put("dropped")
        ended.append("write")

    async def read():
        ended.extend([item async for item in empty])
        ended.append("read")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        full.end()
        empty.end()
    assert sorted(ended) == ["read", "write"]
    assert [item async for item in full] == ["kept"]


async def test_every_item_reaches_one_of_two_readers():
    queue, taken = Queue[int](), []

    async def read():
        taken.extend([number async for number in queue])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        for number in range(5):
            await queue.put(number)
        queue.end()
    assert sorted(taken) == [0, 1, 2, 3, 4]
