# SPDX-License-Identifier: Apache-2.0
"""Ground truth for time: two phases whose CPU time the program itself measures.

Alternates slow() and quick() with a true ratio that it prints as JSON at the end:
{"slow": seconds, "quick": seconds}. A profile's shares must agree within its own error.
Usage: split.py SECONDS [SLOW_LOOPS QUICK_LOOPS]
"""
import json
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
SLOW = int(sys.argv[2]) if len(sys.argv) > 2 else 7000
QUICK = int(sys.argv[3]) if len(sys.argv) > 3 else 3000


def slow():
    t = time.perf_counter()
    s = 0
    for i in range(SLOW):
        s += i
    return time.perf_counter() - t


def quick():
    t = time.perf_counter()
    s = 0
    for i in range(QUICK):
        s += i
    return time.perf_counter() - t


total = {"slow": 0.0, "quick": 0.0}
print("ready", flush=True)
end = time.time() + SECONDS
while time.time() < end:
    total["slow"] += slow()
    total["quick"] += quick()
print(json.dumps(total), flush=True)
