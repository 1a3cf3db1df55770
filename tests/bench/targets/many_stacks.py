# SPDX-License-Identifier: Apache-2.0
"""STACKS distinct stacks, each with a leaf of its own, visited in a random order for about 20 us at a time.

Usage: many_stacks.py COUNTS STACKS
"""
import random
import sys

import common

counts = common.open_counts(sys.argv[1])
STACKS = int(sys.argv[2])
FANOUT = 100

source = ["def leaf_%d(): return sum(range(1500))\ndef middle_%d(): return leaf_%d()\n" % (n, n, n) for n in range(STACKS)]
for top in range(0, STACKS, FANOUT):
    choices = ", ".join("middle_%d" % n for n in range(top, min(top + FANOUT, STACKS)))
    source.append("choices_%d = [%s]\ndef top_%d(n): return choices_%d[n]()\n" % (top, choices, top, top))
exec(compile("".join(source), "many_stacks_generated.py", "exec"), globals())
tops = [globals()["top_%d" % top] for top in range(0, STACKS, FANOUT)]
rng = random.Random(1)
print("ready", flush=True)
while True:
    n = rng.randrange(STACKS)
    tops[n // FANOUT](n % FANOUT)
    counts[0] += 1
