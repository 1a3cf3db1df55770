# SPDX-License-Identifier: Apache-2.0
"""Two loops in two threads, one busy and one at rest; then, in the main thread, one loop after another.

The functions of the threads carry their names: t_busy and t_rest. The main thread runs asyncio.run twice, a
runner with a loop of its own, and last a bare run_until_complete that stays.
"""
import asyncio
import json
import threading
import time

FOREVER = 3600
EXPECTED = {
    "t_busy": ["t_busy [t_busy_child] t_busy_child t_busy_work"],
    "t_rest": ["t_rest [t_rest_child] t_rest_child"],
    "bare": ["bare [bare_child] bare_child"],
}
begun = threading.Event()


def t_busy_work():
    # Longer than the switch interval of 5 ms: a thread that lets go of the GIL more often than that, and takes it
    # again at once, starves those that wait for it.
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass


async def t_busy_child():
    while True:
        t_busy_work()
        await asyncio.sleep(0)


async def t_busy():
    asyncio.get_running_loop().call_later(0.01, begun.set)
    await asyncio.gather(t_busy_child())


async def t_rest_child():
    await asyncio.sleep(FOREVER)


async def t_rest():
    asyncio.get_running_loop().call_later(0.01, begun.set)
    await asyncio.gather(t_rest_child())


async def over():
    await asyncio.sleep(0)


async def bare_child():
    await asyncio.sleep(FOREVER)


async def bare(tell):
    asyncio.get_running_loop().call_later(0.01, tell)
    await asyncio.gather(bare_child())


def start(name, function):
    begun.clear()
    threading.Thread(target=lambda: asyncio.run(function()), name=name, daemon=True).start()
    begun.wait()


def tell():
    start("busy", t_busy)
    print(json.dumps(EXPECTED), flush=True)
    print("ready", flush=True)


start("rest", t_rest)
asyncio.run(over())
asyncio.run(over())
if hasattr(asyncio, "Runner"):
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(over())
asyncio.new_event_loop().run_until_complete(bare(tell))
