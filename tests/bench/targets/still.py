# SPDX-License-Identifier: Apache-2.0
"""A busy thread whose stack of DEPTH frames never changes. Usage: still.py COUNTS DEPTH"""
import sys

import common

counts = common.open_counts(sys.argv[1])
DEPTH = int(sys.argv[2])


def spin():
    print("ready", flush=True)
    s = 0
    while True:
        for i in range(1000):
            s += i
        s = 0
        counts[0] += 1


def down(depth):
    if depth > 1:
        return down(depth - 1)
    return spin()


sys.setrecursionlimit(DEPTH + 1000)
down(DEPTH - 2)  # <module> and spin are the other two
