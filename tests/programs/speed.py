# SPDX-License-Identifier: Apache-2.0
"""Says once every 0.1 s how many steps it made and how long the longest took, until the end of stdin.

Each line is JSON: {"steps": N, "longest": seconds, "cpu": processor seconds}.
"""
import json
import select
import sys
import time


def step():
    s = 0
    for i in range(200):
        s += i
    return s


while not select.select([sys.stdin], [], [], 0)[0]:
    steps, longest = 0, 0.0
    cpu = time.thread_time()
    last = time.perf_counter()
    end = last + 0.1
    while last < end:
        step()
        steps += 1
        now = time.perf_counter()
        longest = max(longest, now - last)
        last = now
    print(json.dumps({"steps": steps, "longest": longest, "cpu": time.thread_time() - cpu}), flush=True)
