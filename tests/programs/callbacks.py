# SPDX-License-Identifier: Apache-2.0
"""Calls from C code back into Python, without end: sorted() with a key, objects that compare themselves, map()."""
import sys


class Ordered:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value < other.value


def key(value):
    return sum(range(value % 30))


def work():
    numbers = list(range(1000))
    while True:
        sorted(numbers, key=key)
        sorted([Ordered(number * 7919 % 1000) for number in numbers])
        list(map(key, numbers))


sys.stdout.write("ready\n")
sys.stdout.flush()
work()
