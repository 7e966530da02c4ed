"""Run as a program: print each pattern of the package that needs more than linear time on one of its texts.

Times are of the processor and only ever compared with each other in one run: the time for 4,000 characters with that
for 1,000, on the same pattern. Linear is 4 times, quadratic 16.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping

from collected import METHODS, Collector, call_cached, held, import_all, read_source
from pumps import shapes, text_of

from examples import EXAMPLES

SIZES = 1_000, 2_000, 4_000
LINEAR = 8.0  # times the shortest for four times the characters: between 4 and 16
ENOUGH_S = 0.3  # of a clock that may tick a hundred times a second
FLOOR = 4.0  # units: what costs less on the longest text is no matter
QUADRATIC = 16.0
MOST_FLOORS = 80  # of time for all texts of a pattern that is slow on every text; the first ones are made from it
BOUND_S = 5.0  # of the processor, for one text: ends what is exponential


class TooLong(Exception):  # noqa: N818 - it ends a run
    pass


def cost(run: Callable[[str], object], text: str, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter_ns()
        run(text)
        best = min(best, (time.perf_counter_ns() - start) / 1e9)
    return best


def processor(run: Callable[[str], object], text: str) -> float:
    """Time of the processor for one run, over as many as its coarse clock needs."""
    start, runs = time.process_time(), 0
    while (spent := time.process_time() - start) < ENOUGH_S:
        run(text)
        runs += 1
    return spent / runs


def runner(pattern: re.Pattern, method: str) -> Callable[[str], object]:
    given = isinstance(pattern.pattern, bytes)

    def run(text: str) -> object:
        subject = text.encode() if given else text
        if method in {"match", "fullmatch", "search"}:
            return getattr(pattern, method)(subject)
        if method in {"sub", "subn"}:
            return pattern.sub(b"" if given else "", subject)
        return deque(pattern.finditer(subject), maxlen=0)

    return run


def unit() -> float:
    """What a linear pattern costs here on the longest text, whose characters it has to look at one by one."""
    pattern = re.compile("[a-c]")
    return cost(lambda text: pattern.sub("d", text), "a" * SIZES[-1], 9)


def offence(pattern: re.Pattern, method: str, floor: float) -> str | None:
    """The first text that costs too much, with the times for its three lengths in units of ``floor``."""
    run = runner(pattern, method)
    left = MOST_FLOORS * floor
    for shape in shapes(pattern):
        short = text_of(shape, SIZES[0])
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, BOUND_S)
            low = cost(run, short, 1)
            # Most texts end here. Cubic time would be seen as well: so short, it takes a hundred times as long.
            if low * QUADRATIC < floor:
                left -= low
                continue
            long = text_of(shape, SIZES[2])
            low, high = min(low, cost(run, short, 2)), cost(run, long, 1)
            left -= 3 * low + high
            if high >= floor and high >= LINEAR * low:
                low, high = cost(run, short, 5), cost(run, long, 5)
                if high >= floor and high >= LINEAR * low:
                    low, between, high = (processor(run, text_of(shape, size)) for size in SIZES)
                    if high >= LINEAR * low:
                        times = f"{low / floor:.2f}, {between / floor:.2f}, {high / floor:.2f}"
                        return f"{short[:30]!r}...{short[-6:]!r}: {times}"
        except TooLong:
            return f"{short[:40]!r}...{short[-6:]!r}: over {BOUND_S} s"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if left < 0:
            break
    return None


def wanted() -> tuple[dict[tuple[re.Pattern, str], str], list[str]]:
    """Each pattern with each method by which it is used, and where; and the calls whose patterns nobody knows."""
    with Collector() as collector:
        import_all()
        call_cached()
    listed, used = read_source()
    found: dict[tuple[re.Pattern, str], str] = {}
    names: dict[int, set[str]] = {}
    held(lambda pattern, name: names.setdefault(id(pattern), set()).add(name))
    unseen = []
    for (file, line), patterns in collector.made.items():
        site = next((each for each in listed if each.file == file and each.first <= line <= each.last), None)
        for pattern in patterns:
            if site is not None and site.method != "compile":
                methods = {site.method}
            else:
                known = {*names.get(id(pattern), ()), *((site.target,) if site and site.target else ())}
                methods = set().union(
                    *(used.get((file if name.startswith("_") else "", name), {"?"}) for name in known)
                )
            for method in METHODS if not methods or "?" in methods else methods:
                found[pattern, method] = f"{file}:{line}"
    for site in listed:
        place = f"{site.file}:{site.first}"
        if any(file == site.file and site.first <= line <= site.last for file, line in collector.made):
            continue
        if site.literal is not None:
            for method in METHODS if site.method == "compile" else (site.method,):
                found[re.compile(*site.literal), method] = place
        elif (examples := EXAMPLES.get((site.file, site.given))) is None:
            unseen.append(f"{place} {site.given}")
        else:
            for pattern in examples:
                found[re.compile(pattern), "finditer" if site.method == "compile" else site.method] = place
    return found, unseen


KINDS = {"findall": "finditer", "split": "finditer", "subn": "finditer", "sub": "finditer"}
WIDER = {"search": ("finditer",), "match": ("finditer", "search")}


def measured(patterns: Mapping[tuple[re.Pattern, str], str]) -> list[str]:
    """A line on each pattern that needs more than linear time in a way in which it is used."""

    def too_long(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGVTALRM, too_long)
    floor = unit() * FLOOR
    ways: dict[tuple[re.Pattern, str], str] = {}
    for (pattern, method), place in patterns.items():
        ways[pattern, KINDS.get(method, method)] = place
    return [
        f"{place}: {method} of {pattern.pattern[:80]!r} on {found}"
        for (pattern, method), place in ways.items()
        # What is found one after the other is searched for, too, and a search begins with a match at the beginning.
        if not any((pattern, wider) in ways for wider in WIDER.get(method, ()))
        and (found := offence(pattern, method, floor))
    ]


def main() -> None:
    """Measure all, or those whose place holds the argument; name the calls that cannot be measured."""
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    found, unseen = wanted()
    for line in measured({way: place for way, place in found.items() if only in place}):
        print(line, flush=True)
    for place in unseen:
        print(f"{place}: this pattern is made while the program runs. Give an example of it in EXAMPLES.")


if __name__ == "__main__":
    main()
