# SPDX-License-Identifier: Apache-2.0
"""Nurseries of trio. Needs trio. Of all but t4 nothing runs once it says ready."""
import time

import trio

from expect import chosen, ready, scenario


@scenario("t1 [t1_child] t1_child [t1_grandchild] t1_grandchild")
async def t1():
    async def t1_grandchild():
        await trio.sleep_forever()

    async def t1_child():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(t1_grandchild)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(t1_child)


# Who opened the nursery does something else: it is seen for itself, and the child below what opened it.
@scenario("t2 t2_helper t2_body", "t2 t2_helper +[t2_child] t2_child")
async def t2():
    async def t2_child():
        await trio.sleep_forever()

    async def t2_body():
        await trio.sleep_forever()

    async def t2_helper():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(t2_child)
            await t2_body()

    await t2_helper()


# A nursery within another one's body: the inner one's end is waited for.
@scenario("t3 [t3_inner] t3_inner", "t3 +[t3_outer] t3_outer")
async def t3():
    async def t3_outer():
        await trio.sleep_forever()

    async def t3_inner():
        await trio.sleep_forever()

    async with trio.open_nursery() as outer:
        outer.start_soon(t3_outer)
        async with trio.open_nursery() as inner:
            inner.start_soon(t3_inner)


def work():
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        pass


@scenario("t4 [t4_one] t4_one t4_step work", "t4 [t4_two] t4_two work")
async def t4():
    async def t4_step():
        work()
        await trio.lowlevel.checkpoint()

    async def t4_one():
        while True:
            await t4_step()

    async def t4_two():
        while True:
            work()
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(t4_one)
        nursery.start_soon(t4_two)


async def main():
    async with trio.open_nursery() as nursery:
        for function in chosen():
            nursery.start_soon(function)
        await trio.sleep(0.2)
        nursery.start_soon(say_ready)


async def say_ready():
    ready()


trio.run(main)
