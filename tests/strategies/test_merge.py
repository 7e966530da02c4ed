import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.strategies.runtime.merge import Merge
from stretto.values.answer import Branch

pytestmark = pytest.mark.anyio


class Written:
    """A branch whose pieces are already there."""

    def __init__(self, pieces):
        self.pieces = [piece for piece in pieces if piece]

    async def read(self):
        await anyio.lowlevel.checkpoint()
        return self.pieces.pop(0) if self.pieces else ""

    async def ended(self):
        return Branch(id="x", kind="section")


async def merged(segments):
    deltas = []

    async def emit(text):
        deltas.append(text)

    merge = Merge(emit, lambda: 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(merge.run)
        for segment in segments:
            if isinstance(segment, str):
                merge.add(segment)
            else:
                merge.add_branch(Written(segment), ending=lambda branch: ";")
        await merge.finish()
    return merge.text, deltas


@given(st.lists(st.one_of(st.text(max_size=5), st.lists(st.text(max_size=5), max_size=4)), max_size=8))
def test_segments_come_in_the_order_they_were_added_and_deltas_concatenate_to_the_text(segments):
    text, deltas = anyio.run(merged, segments)
    assert text == "".join(segment if isinstance(segment, str) else "".join(segment) + ";" for segment in segments)
    assert "".join(deltas) == text
    assert all(deltas)


async def test_a_piece_added_at_once_is_written_before_anything_else_unless_a_branch_stands_before_it():
    deltas = []

    async def emit(text):
        deltas.append(text)

    merge = Merge(emit, lambda: 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(merge.run)
        await merge.add_at_once("a title")
        assert deltas == ["a title"]
        merge.add_branch(Written([" its text"]))
        await merge.add_at_once(" the next")
        assert deltas == ["a title"]
        await merge.finish()
    assert deltas == ["a title", " its text", " the next"]
