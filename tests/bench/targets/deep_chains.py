# SPDX-License-Identifier: Apache-2.0
"""Deep stacks of distinct functions that change all the time: main calls in turn chains a, b and c, each of DEPTH - 3
functions that call one another once, and the innermost calls leaf; then all of it returns.

One such round takes MICROSECONDS. Usage: deep_chains.py COUNTS DEPTH MICROSECONDS
"""
import sys

import common

DEPTH = int(sys.argv[2])
MICROSECONDS = float(sys.argv[3])
counts = common.open_counts(sys.argv[1])


def leaf(work):
    s = 0
    for i in range(work):
        s += i
    return s


def chain(letter):
    callee, names = "leaf", {"leaf": leaf}
    for number in range(DEPTH - 3, 0, -1):
        name = "%s%d" % (letter, number)
        exec("def %s(work):\n    return %s(work)\n" % (name, callee), names)
        callee = name
    return names[callee]


def main(work):
    while True:
        for first in chains:
            first(work)
            counts[0] += 1


sys.setrecursionlimit(DEPTH + 1000)
chains = [chain(letter) for letter in "abc"]
WORK = common.calibrate(chains[0], MICROSECONDS)
print("ready", WORK, flush=True)
main(WORK)
