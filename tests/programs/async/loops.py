# SPDX-License-Identifier: Apache-2.0
"""Loops in threads, one of them busy and the others at rest; then, in the main thread, one loop after another.

The functions of the threads carry their names: t_busy, t_rest, t_second (the second asyncio.run of its thread) and
t_runner (a runner that makes its own loop). The main thread runs asyncio.run twice, a runner, and last a bare
run_until_complete that stays.
"""
import asyncio
import json
import threading
import time

FOREVER = 3600
EXPECTED = {
    "t_busy": ["t_busy [t_busy_child] t_busy_child t_busy_work"],
    "t_rest": ["t_rest [t_rest_child] t_rest_child"],
    "t_second": ["t_second [t_second_child] t_second_child"],
    "bare": ["bare [bare_child] bare_child"],
}
if hasattr(asyncio, "Runner"):
    EXPECTED["t_runner"] = ["t_runner [t_runner_child] t_runner_child"]
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


async def t_second_child():
    await asyncio.sleep(FOREVER)


async def t_second():
    asyncio.get_running_loop().call_later(0.01, begun.set)
    await asyncio.gather(t_second_child())


def second():
    asyncio.run(over())
    asyncio.run(t_second())


async def t_runner_child():
    await asyncio.sleep(FOREVER)


async def t_runner():
    asyncio.get_running_loop().call_later(0.01, begun.set)
    await asyncio.gather(t_runner_child())


def runs_by_itself():
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(t_runner())


async def over():
    await asyncio.sleep(0)


async def bare_child():
    await asyncio.sleep(FOREVER)


async def bare(tell):
    asyncio.get_running_loop().call_later(0.01, tell)
    await asyncio.gather(bare_child())


def start(name, function):
    begun.clear()
    threading.Thread(target=function, name=name, daemon=True).start()
    begun.wait()


def tell():
    start("busy", lambda: asyncio.run(t_busy()))
    print(json.dumps(EXPECTED), flush=True)
    print("ready", flush=True)


start("rest", lambda: asyncio.run(t_rest()))
start("second", second)
if hasattr(asyncio, "Runner"):
    start("runner", runs_by_itself)
asyncio.run(over())
asyncio.run(over())
if hasattr(asyncio, "Runner"):
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(over())
asyncio.new_event_loop().run_until_complete(bare(tell))
