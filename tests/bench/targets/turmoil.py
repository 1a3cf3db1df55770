# SPDX-License-Identifier: Apache-2.0
"""Churns what a profiler keeps about a target: code objects, threads and stacks come and go all the time.

Each round compiles two functions, calls them from a new thread and from the main one, at some depth, and lets all
of it die. Their names come round again after GENERATIONS, so that the number of distinct stacks is bounded while
every object is new. A stack with ephemeral_A over leaf_B never was. Usage: turmoil.py COUNTS
"""
import gc
import random
import sys
import threading

import common

counts = common.open_counts(sys.argv[1])
rng = random.Random(1)
GENERATIONS = 50
DEPTHS = (0, 10, 25, 40)
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
rounds = 0
while True:
    k = rounds % GENERATIONS
    names = {}
    exec(compile(SOURCE % {"k": k}, "turmoil_%d.py" % k, "exec"), names)
    function = names["ephemeral_%d" % k]
    thread = threading.Thread(target=down, args=(rng.choice(DEPTHS), function), name="round-%d" % k)
    thread.start()
    down(rng.choice(DEPTHS), function)
    thread.join()
    del function, thread
    names.clear()
    rounds += 1
    if rounds % GENERATIONS == 0:
        gc.collect()
    counts[0] += 1
