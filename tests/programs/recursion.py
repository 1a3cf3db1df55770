# SPDX-License-Identifier: Apache-2.0
"""Ground truth for recursion: a, b and c call rec 11, 13 and 15 deep, and the innermost calls work.

A stack with work over any other number of rec than its first function asks for never was.
Usage: recursion.py SECONDS [WORK]
"""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
WORK = int(sys.argv[2]) if len(sys.argv) > 2 else 100


def work():
    s = 0
    for i in range(WORK):
        s += i
    return s


def rec(depth):
    if depth > 1:
        return rec(depth - 1)
    return work()


def a():
    return rec(11)


def b():
    return rec(13)


def c():
    return rec(15)


print("ready", flush=True)
end = time.time() + SECONDS
while time.time() < end:
    for _ in range(100):
        a()
        b()
        c()
