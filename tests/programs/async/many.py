# SPDX-License-Identifier: Apache-2.0
"""Many tasks that sleep and one that works. Argument: how many sleep."""
import asyncio
import sys
import time


def work():
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end:
        pass


async def busy():
    while True:
        work()
        await asyncio.sleep(0)


async def sleeper():
    await asyncio.sleep(3600)


async def main():
    tasks = [asyncio.ensure_future(sleeper()) for _ in range(int(sys.argv[1]))]
    await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(busy()))
    asyncio.get_running_loop().call_later(0.05, lambda: print("ready", flush=True))
    await asyncio.gather(*tasks)


asyncio.run(main())
