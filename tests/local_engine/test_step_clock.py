"""Steps are compared by what their thread computes, so that other programs do not change what rows seem to cost."""

import time
from threading import Thread

import torch

from stretto.local_engine.drafting.step_cost import step_clock


def compute(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


def test_on_a_cpu_the_time_of_others_does_not_count():
    clock, other = step_clock(torch.device("cpu")), Thread(target=compute, args=(0.3,))
    began = clock()
    other.start()
    other.join()
    waited = clock() - began
    compute(0.1)
    assert waited < 0.1 <= clock() - began - waited


def test_a_gpu_computes_while_the_thread_waits_so_there_the_time_of_day_counts():
    assert step_clock(torch.device("cuda")) is time.perf_counter
