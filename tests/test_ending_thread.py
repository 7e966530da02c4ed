"""Threads that the exit of a program ends."""

import subprocess
import sys

import pytest
from patience import patience

PROGRAM = """
from threading import Event
from stretto.foundation import ending_thread

class Large:
    def __del__(self):
        for _ in range(20):
            sum(range(10**6))
        print("freed")

def work():
    held = Large()
    begun.set()
    while True:
        pass

ending_thread._PATIENCE_S = 0.1
begun = Event()
ending_thread.EndingThread(work, lambda: None, "works").start()
begun.wait()
print("The end.")
"""


@pytest.mark.parametrize("last_s", [1.0, 0.2])
def test_the_exit_waits_until_what_an_interrupted_thread_held_is_freed(last_s):
    program = PROGRAM.replace("begun = Event()", f"begun, ending_thread._LAST_S = Event(), {last_s}")
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=patience(60), check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "The end.\nfreed\n", "")
