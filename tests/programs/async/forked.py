# SPDX-License-Identifier: Apache-2.0
"""A process that forks inside a running task: the child has no loop, whatever it inherited. Prints its pid."""
import asyncio
import os
import time


def child_work():
    while True:
        time.perf_counter()


async def forker():
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        print("ready", flush=True)
        child_work()
    await asyncio.sleep(3600)


async def main():
    await asyncio.gather(forker())


asyncio.run(main())
