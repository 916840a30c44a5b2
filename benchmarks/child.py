"""One library, measured in this process: `python child.py LIBRARY THREADS CASE [CASE ...]`.

Prints one line of JSON: the library's version and, per case, a number in the case's unit.
"""

from __future__ import annotations

import importlib
import json
import resource
import statistics
import sys
import time
import timeit
from typing import Any

PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
WARM_UP_S = 0.1
REPEAT_S = 0.05  # one repeat takes about this long
REPEATS = 5


def time_statement(statement: str, names: dict[str, Any]) -> float:
    """Seconds per call: the median of a few repeats of a loop around the statement."""
    timer = timeit.Timer(statement, globals=names)
    number, took = 1, timer.timeit(1)
    end = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < end:
        took = timer.timeit(number)
        if took < REPEAT_S / 2:
            number *= 2
    number = max(1, round(number * REPEAT_S / took))
    return statistics.median(timer.repeat(REPEATS, number)) / number


def main(argv: list[str]) -> int:
    """Measures, prints, and returns the exit status."""
    library, threads, names = argv[0], int(argv[1]), argv[2:]
    start = time.perf_counter()
    tl = importlib.import_module(library)
    import_s = time.perf_counter() - start

    from suites import case_named  # not before: it must not count for the import

    tl.set_num_threads(threads)
    values = {}
    for name in names:
        case = case_named(name)
        used = case.setup(tl)
        if case.fresh == "import":
            values[name] = import_s
        elif case.fresh == "peak":
            kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            values[name] = kilobytes * 1024 / 1e6
        elif case.moved_bytes:
            values[name] = case.moved_bytes / time_statement(case.statement, used) / 1e9
        else:
            values[name] = time_statement(case.statement, used) * PER_SECOND[case.unit]
    print(json.dumps({"version": tl.__version__, "values": values}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
