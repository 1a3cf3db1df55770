# SPDX-License-Identifier: Apache-2.0
"""What the bench's targets share: counters that the bench reads while they run, and work of a given length."""
import mmap
import os
import time


def open_counts(path, slots=1):
    """Counters of iterations in a shared file; "-" keeps them to the program."""
    size = 8 * slots
    if path == "-":
        memory = mmap.mmap(-1, size)
    else:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
    return memoryview(memory).cast("Q")


def seconds_of(step, work, calls):
    """The shortest of several means: what disturbs can only lengthen them."""
    best = float("inf")
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(calls):
            step(work)
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def calibrate(step, microseconds):
    """The amount of work with which step(work) takes that long, found by trying: small numbers add faster than large ones."""
    wanted = microseconds * 1e-6
    calls = max(50, min(500, round(2500 / microseconds)))
    seconds_of(step, 200, 500)  # lets the interpreter specialise it first
    low, high = 1, 2
    while seconds_of(step, high, calls) < wanted:
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        if seconds_of(step, middle, calls) < wanted:
            low = middle
        else:
            high = middle
    return high
