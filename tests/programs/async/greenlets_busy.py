# SPDX-License-Identifier: Apache-2.0
"""Greenlets that run within tasks, as SQLAlchemy calls synchronous code: each works, waits and works again.

Needs the module greenlet. They run until the program is ended.
"""
import asyncio
import time

from expect import chosen, ready, scenario
from switching import await_only, spawn


def work(seconds=0.003):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def receive():
    await asyncio.sleep(0.002)


@scenario("b1 [b1_part] b1_part spawn b1_query b1_work work")
async def b1():
    def b1_work():
        work()

    def b1_query():
        b1_work()
        await_only(receive())
        b1_work()

    async def b1_part():
        await spawn(b1_query)

    while True:
        await asyncio.gather(b1_part())


# Behind a call from C.
@scenario("b2 b2_handler spawn b2_query b2_key b2_work work")
async def b2():
    def b2_work():
        work(0.015)  # of which several samples are taken

    def b2_key(number):
        b2_work()
        return number

    def b2_query():
        await_only(receive())
        sorted([2, 1], key=b2_key)

    async def b2_handler():
        await spawn(b2_query)

    while True:
        await b2_handler()


# A coroutine that a greenlet waits for works by itself: the greenlet between stands still then.
@scenario("b3 spawn b3_query await_only b3_answer b3_work work")
async def b3():
    def b3_work():
        work()

    async def b3_answer():
        b3_work()
        await receive()

    def b3_query():
        await_only(b3_answer())

    while True:
        await spawn(b3_query)


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    asyncio.get_running_loop().call_later(0.2, ready)
    await asyncio.gather(*tasks)


asyncio.run(main())
