# SPDX-License-Identifier: Apache-2.0
"""C code that calls back: sorted() with a key of 50 ns, and map() with a function of half a microsecond.

Usage: short_callbacks.py SECONDS
"""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
DATA = list(range(200, 0, -1))


def key(x):
    return -x


def helper():
    s = 0
    for i in range(30):
        s += i
    return s


def each(x):
    return helper()


def by_sort():
    return sorted(DATA, key=key)


def by_map():
    return list(map(each, DATA[:50]))


print("ready", flush=True)
end = time.time() + SECONDS
while time.time() < end:
    for _ in range(100):
        by_sort()
        by_map()
        helper()
