from stretto.local_engine.generation import Figures
from stretto.local_engine.serving.record import Record


def test_figures_are_added_up_by_method():
    record = Record()
    record.add(Figures("auto", 10, 40, 25, {"suffix": 30}, {"suffix": 15}))
    record.add(Figures("auto", 10, 20, 15, {"suffix": 5, "jacobi": 5}, {"jacobi": 5}))
    record.add(Figures("suffix", 1, 1, 1))
    assert record.by_method() == {
        "auto": Figures("auto", 20, 60, 40, {"suffix": 35, "jacobi": 5}, {"suffix": 15, "jacobi": 5}),
        "suffix": Figures("suffix", 1, 1, 1),
    }


def test_what_is_old_counts_less():
    record = Record(memory=100)
    for _ in range(50):
        record.add(Figures("auto", 10, 80, 40))
    for _ in range(50):
        record.add(Figures("auto", 10, 10, 10))
    found = record.by_method()["auto"]
    assert found.steps <= 120
    assert found.tokens_per_step < 1.05
