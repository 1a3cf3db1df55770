# SPDX-License-Identifier: Apache-2.0
"""Work that tasks give to threads of a pool: each piece of it is called after the task that waits for it.

Arguments: names of scenarios, none for all. They run until the program is ended.
"""
import asyncio
import concurrent.futures
import sys
import time

from expect import chosen, ready, scenario

SLICE = 0.05  # seconds of work a call
POOL = concurrent.futures.ThreadPoolExecutor(3, "pool")


@scenario("w1 w1_ask [executor] w1_below w1_work")
async def w1():
    def w1_work():
        end = time.perf_counter() + SLICE
        while time.perf_counter() < end:
            pass

    def w1_below():
        w1_work()

    async def w1_ask():
        await asyncio.get_running_loop().run_in_executor(POOL, w1_below)

    while True:
        await w1_ask()


@scenario("w2 [w2_part] w2_part [executor] w2_work")
async def w2():
    def w2_work():
        end = time.perf_counter() + SLICE
        while time.perf_counter() < end:
            pass

    async def w2_part():
        while True:
            await asyncio.get_running_loop().run_in_executor(POOL, w2_work)

    await asyncio.gather(w2_part())


# Waited for by way of gather() itself: the future is no task's own.
@scenario("w3 [executor] w3_work")
async def w3():
    def w3_work():
        end = time.perf_counter() + SLICE
        while time.perf_counter() < end:
            pass

    while True:
        await asyncio.gather(asyncio.get_running_loop().run_in_executor(POOL, w3_work))


@scenario("w4 [executor] w4_work", since=(3, 9))
async def w4():
    def w4_work():
        end = time.perf_counter() + SLICE
        while time.perf_counter() < end:
            pass

    while True:
        await asyncio.to_thread(w4_work)


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    asyncio.get_running_loop().call_later(0.2, ready)
    await asyncio.gather(*tasks)


# Threads that no task has asked for work beside them.
def lonely_work():
    end = time.perf_counter() + SLICE
    while time.perf_counter() < end:
        pass


def lonely():
    while True:
        POOL_OF_ITS_OWN.submit(lonely_work).result()


POOL_OF_ITS_OWN = concurrent.futures.ThreadPoolExecutor(1, "lonely")
if sys.argv[1:] == []:
    import threading

    threading.Thread(target=lonely, daemon=True).start()
asyncio.run(main())
