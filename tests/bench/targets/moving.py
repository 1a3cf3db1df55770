# SPDX-License-Identifier: Apache-2.0
"""Stacks that change all the time: main calls rec DEPTH - 3 deep, the innermost calls leaf, and all of it returns.

One such round takes MICROSECONDS. BUSY threads do that, the main thread is one of them; BLOCKED others wait
for a lock, ten frames deep. Usage: moving.py COUNTS DEPTH MICROSECONDS [BUSY BLOCKED]
"""
import sys
import threading

import common

DEPTH = int(sys.argv[2])
MICROSECONDS = float(sys.argv[3])
BUSY = int(sys.argv[4]) if len(sys.argv) > 4 else 1
BLOCKED = int(sys.argv[5]) if len(sys.argv) > 5 else 0
counts = common.open_counts(sys.argv[1], BUSY)


def leaf(work):
    s = 0
    for i in range(work):
        s += i
    return s


def rec(depth, work):
    if depth > 1:
        return rec(depth - 1, work)
    return leaf(work)


def main(slot, work):
    while True:
        rec(DEPTH - 3, work)
        counts[slot] += 1


def wait(depth, lock):
    if depth > 1:
        return wait(depth - 1, lock)
    lock.acquire()


sys.setrecursionlimit(DEPTH + 1000)
WORK = common.calibrate(lambda work: rec(DEPTH - 3, work), MICROSECONDS)
locked = threading.Lock()
locked.acquire()
for _ in range(BLOCKED):
    threading.Thread(target=wait, args=(6, locked), daemon=True).start()
usual = sys.getswitchinterval()
sys.setswitchinterval(1e-5)  # each start waits for its turn behind those that are busy already
for number in range(1, BUSY):
    threading.Thread(target=main, args=(number, WORK), daemon=True).start()
sys.setswitchinterval(usual)
print("ready", WORK, flush=True)
main(0, WORK)
