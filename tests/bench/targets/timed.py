# SPDX-License-Identifier: Apache-2.0
"""Functions that run for 1 to 20 us, and the program's own account of the time of each.

Each line of run() that calls one of them also reads the clock at its very end, so that the time between two
readings is the time of one line, the same line a profiler shows for run(). After "ready" come the numbers of
those lines; then, about every 0.1 s, the seconds of each line so far are in the counters as nanoseconds.
Usage: timed.py COUNTS
"""
import inspect
import sys
from time import perf_counter_ns as clock

import common

LENGTHS = (1, 2, 5, 10, 20)
counts = common.open_counts(sys.argv[1], len(LENGTHS))


def work(steps):
    s = 0
    for i in range(steps):
        s += i
    return s


source = "".join("def takes_%d():\n    s = 0\n    for i in range(%d): s += i\n    return s\n"
                 % (length, common.calibrate(work, length)) for length in LENGTHS)
exec(compile(source, "timed_generated.py", "exec"), globals())


def run(rounds):
    a = b = c = d = e = 0
    t = s = clock()
    for _ in range(rounds):
        e += t - s; s = t; takes_1(); t = clock()  # noqa: E702, F821
        a += t - s; s = t; takes_2(); t = clock()  # noqa: E702, F821
        b += t - s; s = t; takes_5(); t = clock()  # noqa: E702, F821
        c += t - s; s = t; takes_10(); t = clock()  # noqa: E702, F821
        d += t - s; s = t; takes_20(); t = clock()  # noqa: E702, F821
    e += t - s
    return a, b, c, d, e


lines, first = inspect.getsourcelines(run)
print("ready", *(first + n for n, line in enumerate(lines) if "takes_" in line), flush=True)
while True:
    for slot, spent in enumerate(run(2500)):
        counts[slot] += spent
