# SPDX-License-Identifier: Apache-2.0
"""TASKS plain asyncio tasks, each four coroutines deep; every step works for MICROSECONDS and sleeps for 0 s.

A stack that holds a coroutine without its three callers, or in another order, never was.
Usage: coroutines.py COUNTS TASKS MICROSECONDS
"""
import asyncio
import sys

import common

counts = common.open_counts(sys.argv[1])
TASKS = int(sys.argv[2])


def work_of(work):
    s = 0
    for i in range(work):
        s += i
    return s


WORK = common.calibrate(work_of, float(sys.argv[3]))


async def fourth():
    s = 0
    for i in range(WORK):
        s += i
    counts[0] += 1
    await asyncio.sleep(0)
    return s


async def third():
    return await fourth()


async def second():
    return await third()


async def first():
    while True:
        await second()


async def main():
    print("ready", flush=True)
    await asyncio.gather(*(first() for _ in range(TASKS)))


asyncio.run(main())
