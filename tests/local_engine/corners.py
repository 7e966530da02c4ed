"""Cases of a matrix: its corners for `make test`, the rest for `make test-targets`."""

from itertools import product

import pytest


def corners(*axes, of):
    """All combinations; those that ``of`` is not true of are marked as thorough."""
    return [
        pytest.param(*case, marks=() if of(*case) else pytest.mark.thorough, id="-".join(map(str, case)))
        for case in product(*axes)
    ]
