# SPDX-License-Identifier: Apache-2.0
"""Code objects that die and come back at the same address, under new names each time.

Every generated function is called ephemeral_K and calls leaf_K with the same K.
A stack that holds ephemeral_A over leaf_B was resolved from a stale cache.
Usage: churn.py SECONDS
"""
import gc
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
end = time.time() + SECONDS
k = 0
print("ready", flush=True)
while time.time() < end:
    ns = {}
    src = (
        "def leaf_%d():\n    s = 0\n    for i in range(3000): s += i\n    return s\n"
        "def ephemeral_%d():\n    return leaf_%d()\n" % (k, k, k)
    )
    exec(compile(src, "churn_%d.py" % k, "exec"), ns)
    for _ in range(3):
        ns["ephemeral_%d" % k]()
    ns.clear()
    del ns
    if k % 50 == 0:
        gc.collect()
    k += 1
print("generations", k, flush=True)
