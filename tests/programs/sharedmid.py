# SPDX-License-Identifier: Apache-2.0
"""Ground truth for shared helpers: top_K -> h1 -> h2 -> h3 -> leaf_K, with the same K at both ends.

Every edge of a stack with top_A over leaf_B is real, and the stack never was.
Usage: sharedmid.py SECONDS [WORK]   WORK is the number of loop steps in a leaf
"""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
WORK = int(sys.argv[2]) if len(sys.argv) > 2 else 5
COUNT = 12

source = [
    "def h1(leaf):\n    return h2(leaf)\n",
    "def h2(leaf):\n    return h3(leaf)\n",
    "def h3(leaf):\n    return leaf()\n",
]
for k in range(COUNT):
    source.append("def leaf_%d():\n    s = 0\n    for i in range(%d): s += i\n    return s\n" % (k, WORK))
    source.append("def top_%d():\n    return h1(leaf_%d)\n" % (k, k))
exec(compile("".join(source), "sharedmid_generated.py", "exec"), globals())
tops = [globals()["top_%d" % k] for k in range(COUNT)]
print("ready", flush=True)
end = time.time() + SECONDS
while time.time() < end:
    for _ in range(100):
        for top in tops:
            top()
