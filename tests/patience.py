"""How long a test waits for what comes at once if all is well: longer where the machine is slower than it should be."""

import time

IDLE_S = 0.015  # what the measured work takes on two idle cores, for which the limits of the tests are written
VALID_S = 20.0  # of a clock: other work may begin and end

_measured, _slowness = -VALID_S, 1.0


def slowness():
    """How many times as long as on an idle core work takes here and now, never less than once."""
    global _measured, _slowness
    if time.monotonic() - _measured > VALID_S:
        began = time.perf_counter()
        sum(number * number % 7 for number in range(150_000))
        _measured, _slowness = time.monotonic(), max(1.0, (time.perf_counter() - began) / IDLE_S)
    return _slowness


def patience(seconds):
    """A limit in seconds that no right answer reaches, at the speed of this machine."""
    return seconds * slowness()
