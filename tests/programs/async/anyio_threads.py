# SPDX-License-Identifier: Apache-2.0
"""Work that tasks give to threads of anyio. Needs anyio. It goes on until the program is ended."""
import asyncio
import time

import anyio
import anyio.to_thread

from expect import chosen, ready, scenario

SLICE = 0.05  # seconds of work a call


@scenario("n1 n1_ask [executor] n1_below n1_work")
async def n1():
    def n1_work():
        end = time.perf_counter() + SLICE
        while time.perf_counter() < end:
            pass

    def n1_below():
        n1_work()

    async def n1_ask():
        await anyio.to_thread.run_sync(n1_below)

    while True:
        await n1_ask()


@scenario("n2 [n2_child] n2_child [executor] n2_work")
async def n2():
    def n2_work():
        end = time.perf_counter() + SLICE
        while time.perf_counter() < end:
            pass

    async def n2_child():
        while True:
            await anyio.to_thread.run_sync(n2_work)

    async with anyio.create_task_group() as group:
        group.start_soon(n2_child)


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    asyncio.get_running_loop().call_later(0.2, ready)
    await asyncio.gather(*tasks)


asyncio.run(main())
