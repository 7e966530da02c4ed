"""Which steps a request shared with how many others, kept for those that are watched."""

from asking import outcome

from stretto.local_engine.generation import Generation

PROMPTS = [tuple(5 + (place * step) % 300 for place in range(20)) for step in (7, 11)]  # they begin differently


def ran(engine, *lengths, watched):
    """Runs requests of these lengths in one batch; their handles and figures."""
    with engine.announced():
        handles = [
            engine.submit(Generation(prompt, length), watched=each)
            for prompt, length, each in zip(PROMPTS, lengths, watched, strict=False)  # as many as there are lengths
        ]
    return [(handle.batches, outcome(handle)[1].figures) for handle in handles]


def test_a_request_that_is_not_watched_keeps_nothing(loaded, start):
    [(batches, _)] = ran(start(loaded("llama")), 5, watched=[False])
    assert batches is None


def test_a_batch_ends_where_a_request_leaves(loaded, start):
    (short, _), (long, figures) = ran(start(loaded("llama")), 5, 20, watched=[True, True])
    assert [each.requests for each in long] == [2, 1]
    assert [each.number for each in short] == [long[0].number]
    assert [each.steps for each in short] == [long[0].steps] == [4]
    assert sum(each.steps for each in long) == figures.steps
    assert sum(each.rows for each in long) == figures.rows
    assert sum(each.tokens for each in long) == figures.tokens
    assert long[0].began_s < long[0].ended_s <= long[1].began_s < long[1].ended_s


def test_those_that_are_not_watched_count_as_company(loaded, start):
    (watched, _), (others, _) = ran(start(loaded("llama")), 8, 8, watched=[True, False])
    assert [(each.requests, each.steps) for each in watched] == [(2, 7)]
    assert others is None


def test_a_request_of_one_token_takes_no_step(loaded, start):
    [(batches, figures)] = ran(start(loaded("llama")), 1, watched=[True])
    assert batches == []
    assert figures.steps == 0


def test_a_cancelled_request_keeps_the_steps_until_then(loaded, start):
    engine = start(loaded("llama"))
    handle = engine.submit(Generation(PROMPTS[0], 200), watched=True)
    pieces = iter(handle)
    next(pieces)
    handle.cancel()
    *_, end = pieces
    assert end.reason == "cancelled"
    assert sum(each.steps for each in handle.batches) == (end.figures.steps if end.figures else 0)
