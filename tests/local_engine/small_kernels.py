"""Two functions that are compiled in a moment, where the compiler's process is looked at and not what it compiles."""

import numpy as np

from stretto.local_engine.kernels.compiling.jit import entry


@entry
def total(numbers):
    found = 0.0
    for number in numbers:
        found += number
    return found


@entry
def squares(numbers):
    found = 0.0
    for number in numbers:
        found += number * number
    return found


def calculate():
    numbers = np.arange(4.0)
    if (total(numbers), squares(numbers)) != (6.0, 14.0):
        raise RuntimeError("compiled code cannot add")
