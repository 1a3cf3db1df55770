# SPDX-License-Identifier: Apache-2.0
"""Churns what a profiler keeps about a target: code objects, threads and stacks are new all the time.

Each round compiles a function of a new name, calls it from a new thread at a new depth, and lets all of it die.
A stack with ephemeral_A over leaf_B never was. Usage: turmoil.py COUNTS
"""
import gc
import random
import sys
import threading

import common

counts = common.open_counts(sys.argv[1])
rng = random.Random(1)
SOURCE = """
def leaf_%(k)d():
    s = 0
    for i in range(3000): s += i
    return s
def ephemeral_%(k)d():
    return leaf_%(k)d()
"""


def down(depth, function):
    return down(depth - 1, function) if depth > 0 else function()


print("ready", flush=True)
k = 0
while True:
    names = {}
    exec(compile(SOURCE % {"k": k}, "turmoil_%d.py" % k, "exec"), names)
    thread = threading.Thread(target=down, args=(rng.randrange(40), names["ephemeral_%d" % k]), name="round-%d" % k)
    thread.start()
    down(rng.randrange(40), names["ephemeral_%d" % k])
    thread.join()
    names.clear()
    if k % 50 == 0:
        gc.collect()
    counts[0] += 1
    k += 1
