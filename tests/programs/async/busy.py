# SPDX-License-Identifier: Apache-2.0
"""Tasks that run: each works for a few milliseconds, lets the others go on, and works again.

Each scenario is a task of its own below main; scenario() holds the stack below which its work() is found.
Arguments: names of scenarios, none for all. They run until the program is ended.
"""
import asyncio
import time
import types

from expect import chosen, ready, run, scenario

SLICE = 0.002  # seconds of work a turn


def turn():
    return time.perf_counter() + SLICE


@scenario("b14 [b14_child] b14_child b14_one b14_two b14_three b14_four b14_work")
async def b14():
    def b14_work():
        end = turn()
        while time.perf_counter() < end:
            pass

    def b14_four():
        b14_work()

    def b14_three():
        b14_four()

    def b14_two():
        b14_three()

    def b14_one():
        b14_two()

    async def b14_child():
        while True:
            b14_one()
            await asyncio.sleep(0)

    await asyncio.gather(b14_child())


@scenario("b15" + " b15_again" * 50 + " b15_work")
async def b15():
    def b15_work():
        end = turn()
        while time.perf_counter() < end:
            pass

    async def b15_again(depth):
        if depth > 1:
            await b15_again(depth - 1)
        else:
            b15_work()
            await asyncio.sleep(0)

    while True:
        await b15_again(50)


@scenario("b16 [b16_reader] b16_reader b16_outer b16_inner b16_work")
async def b16():
    def b16_work():
        end = turn()
        while time.perf_counter() < end:
            pass

    async def b16_inner():
        while True:
            b16_work()
            yield 1

    async def b16_outer():
        async for one in b16_inner():
            yield one

    async def b16_reader():
        async for _ in b16_outer():
            await asyncio.sleep(0)

    await asyncio.ensure_future(b16_reader())


@scenario("b17 [b17_child] b17_child __await__ b17_old b17_work")
async def b17():
    def b17_work():
        end = turn()
        while time.perf_counter() < end:
            pass

    @types.coroutine
    def b17_old():
        b17_work()
        yield

    class Awaitable:
        def __await__(self):
            return (yield from b17_old())

    async def b17_child():
        while True:
            await Awaitable()

    await asyncio.wait([asyncio.ensure_future(b17_child())])


# A task with a name, three deep, whose creator waits in a group.
@scenario("b4 [b4_mid] b4_mid [worker] b4_worker b4_work", since=(3, 11))
async def b4():
    def b4_work():
        end = turn()
        while time.perf_counter() < end:
            pass

    async def b4_worker():
        while True:
            b4_work()
            await asyncio.sleep(0)

    async def b4_mid():
        async with asyncio.TaskGroup() as group:
            group.create_task(b4_worker(), name="worker")

    async with asyncio.TaskGroup() as group:
        group.create_task(b4_mid())


# Up to its first wait an eager task runs above the frames of the one that starts it.
@scenario("b21 [b21_mid] b21_mid [b21_eager] b21_eager b21_work", since=(3, 12))
async def b21():
    def b21_work():
        end = turn()
        while time.perf_counter() < end:
            pass

    async def b21_eager():
        b21_work()

    async def b21_mid():
        while True:
            await asyncio.Task(b21_eager(), loop=asyncio.get_running_loop(), eager_start=True)
            await asyncio.sleep(0)

    await asyncio.ensure_future(b21_mid())


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    asyncio.get_running_loop().call_later(0.2, ready)
    await asyncio.gather(*tasks)


run(main())
