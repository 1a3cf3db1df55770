# SPDX-License-Identifier: Apache-2.0
"""A stack of DEPTH frames of down() in one thread.

Usage: deep.py DEPTH [SECONDS]   with SECONDS the leaf runs, without it blocks until the end of stdin.
"""
import sys
import threading
import time

DEPTH = int(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0


def leaf():
    print("ready", flush=True)
    if not SECONDS:
        sys.stdin.read()
    end = time.time() + SECONDS
    while time.time() < end:
        sum(range(1000))


def down(depth):
    if depth > 1:
        return down(depth - 1)
    return leaf()


sys.setrecursionlimit(DEPTH + 1000)
# Up to 3.10 each call takes room on the C stack, most of all in a debug build.
threading.stack_size(1 << 30)
thread = threading.Thread(target=down, args=(DEPTH,), name="deep")
thread.start()
thread.join()
