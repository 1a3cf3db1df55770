# SPDX-License-Identifier: Apache-2.0
"""Threads and loops that wait for a task of another loop, given to it by run_coroutine_threadsafe().

Tasks of the loop `theirs`: one for which the thread `asks` waits in result(), one that works as well (`works`), one for
which a task of the main thread's loop waits by way of wrap_future(), and one for which nobody waits. It prints the native
ids of its threads, and runs until it is ended.
"""
import asyncio
import json
import threading
import time

SLICE = 0.02  # seconds of work at a time
NATIVE_IDS = {}


async def nap():
    await asyncio.sleep(600)


async def asked():
    begun.release()
    await nap()


async def crossed():
    begun.release()
    await nap()


async def alone():
    begun.release()
    await nap()


def work():
    end = time.perf_counter() + SLICE
    while time.perf_counter() < end:
        pass


async def worked():
    begun.release()
    while True:
        work()
        await asyncio.sleep(0.01)


def call_it(function):
    asyncio.run_coroutine_threadsafe(function(), theirs).result()


def asks():
    NATIVE_IDS["asks"] = threading.get_native_id()
    call_it(asked)


def works():
    NATIVE_IDS["works"] = threading.get_native_id()
    call_it(worked)


def run_theirs():
    NATIVE_IDS["theirs"] = threading.get_native_id()
    begun.release()
    theirs.run_forever()


async def main():
    threading.current_thread().name = "own"
    NATIVE_IDS["own"] = threading.get_native_id()
    waiting = asyncio.ensure_future(bridge())
    left = asyncio.run_coroutine_threadsafe(alone(), theirs)
    for function in (asks, works):
        threading.Thread(target=function, name=function.__name__, daemon=True).start()
    for _ in range(4):
        await asyncio.get_running_loop().run_in_executor(None, begun.acquire)
    asyncio.get_running_loop().call_later(0.2, tell)
    await waiting
    left.result()


async def bridge():
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(crossed(), theirs))


def tell():
    print(json.dumps(NATIVE_IDS), flush=True)
    print("ready", flush=True)


begun = threading.Semaphore(0)
theirs = asyncio.new_event_loop()
threading.Thread(target=run_theirs, name="theirs", daemon=True).start()
begun.acquire()
asyncio.run(main())
