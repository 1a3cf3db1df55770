# SPDX-License-Identifier: Apache-2.0
"""Task groups and threads of anyio on asyncio. Needs the module anyio. Nothing runs once it says ready."""
import asyncio
import threading

import anyio
import anyio.to_thread

from expect import chosen, ready, scenario

FOREVER = 3600


@scenario("a1 [a1_child] a1_child [a1_grandchild] a1_grandchild")
async def a1():
    async def a1_grandchild():
        await anyio.sleep(FOREVER)

    async def a1_child():
        async with anyio.create_task_group() as group:
            group.start_soon(a1_grandchild)

    async with anyio.create_task_group() as group:
        group.start_soon(a1_child)


# The host does something else: it is seen for itself, and the child below what opened the group.
@scenario("a2 a2_helper a2_body", "a2 a2_helper +[a2_child] a2_child")
async def a2():
    async def a2_child():
        await anyio.sleep(FOREVER)

    async def a2_body():
        await anyio.sleep(FOREVER)

    async def a2_helper():
        async with anyio.create_task_group() as group:
            group.start_soon(a2_child)
            await a2_body()

    await a2_helper()


@scenario("a3")
async def a3():
    def a3_work():
        threading.Event().wait(FOREVER)

    await anyio.to_thread.run_sync(a3_work)


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    for _ in range(50):
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.2, ready)
    await asyncio.gather(*tasks)


asyncio.run(main())
