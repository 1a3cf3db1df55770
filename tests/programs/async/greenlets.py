# SPDX-License-Identifier: Apache-2.0
"""Synchronous code that waits within a task, by a greenlet, as SQLAlchemy does it. Needs the module greenlet.

Nothing runs once it says ready.
"""
import asyncio

import greenlet

from expect import chosen, ready, scenario
from switching import await_only, spawn

FOREVER = 3600


@scenario("g1 g1_handler spawn g1_query g1_execute await_only g1_receive")
async def g1():
    async def g1_receive():
        await asyncio.sleep(FOREVER)

    def g1_execute():
        await_only(g1_receive())

    def g1_query():
        g1_execute()

    async def g1_handler():
        await spawn(g1_query)

    await g1_handler()


# The greenlet has been switched to and fro, and waits behind a call from C.
@scenario("g2 [g2_part] g2_part spawn g2_query g2_key await_only g2_receive")
async def g2():
    async def g2_receive(seconds):
        await asyncio.sleep(seconds)

    def g2_key(seconds):
        await_only(g2_receive(seconds))
        return seconds

    def g2_query():
        sorted([0, 0, FOREVER], key=g2_key)

    async def g2_part():
        await spawn(g2_query)

    await asyncio.gather(g2_part())


# A greenlet within a greenlet's coroutine, and one that only stands in a variable.
@scenario("g3 spawn g3_outer await_only g3_between spawn g3_inner await_only g3_receive")
async def g3():
    async def g3_receive():
        await asyncio.sleep(FOREVER)

    def g3_inner():
        await_only(g3_receive())

    async def g3_between():
        await spawn(g3_inner)

    def g3_outer():
        await_only(g3_between())

    idle = greenlet.greenlet(g3_inner)
    await spawn(g3_outer)
    del idle


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    for _ in range(50):
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.2, ready)
    await asyncio.gather(*tasks)


asyncio.run(main())
