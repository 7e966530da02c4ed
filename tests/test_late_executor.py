"""Work that is given to an event loop's threads when Python's own take no more."""

import pytest
from patience import patience

from stretto.foundation.threads import LateExecutor


def ended():
    executor = LateExecutor()
    executor.shutdown()
    return executor


@pytest.mark.parametrize("executor", [LateExecutor(), ended()])
def test_work_is_done_with_its_arguments_and_its_failure_is_the_callers(executor):
    assert executor.submit(int, "7f", base=16).result(60) == 127
    with pytest.raises(ValueError, match="invalid literal"):
        executor.submit(int, "x").result(60)
    assert list(executor.map(len, ["a", "bc"], timeout=patience(60))) == [1, 2]
    executor.shutdown()
