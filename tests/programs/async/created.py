# SPDX-License-Identifier: Apache-2.0
"""Makes tasks that nobody awaits once somebody has the interpreter note where coroutines are made.

Prints "begun"; when coroutine_origin_tracking_depth has become N: "set N", then what the tasks' cr_origin says, and
when it is back at 0: "back". With "debug" asyncio's debug mode has set it from the beginning.
"""
import asyncio
import json
import sys

KEPT = []


async def left():
    await asyncio.sleep(3600)


def helper():
    KEPT.append(asyncio.ensure_future(left()))


async def request_handler():
    helper()


async def depth_is(wanted):
    while (sys.get_coroutine_origin_tracking_depth() != 0) != wanted:
        await asyncio.sleep(0.01)


async def main():
    print("begun", flush=True)
    while True:
        await depth_is(True)
        print("set %d" % sys.get_coroutine_origin_tracking_depth(), flush=True)
        await asyncio.ensure_future(request_handler())
        coroutine = KEPT[-1].get_coro() if hasattr(KEPT[-1], "get_coro") else KEPT[-1]._coro
        print(json.dumps(coroutine.cr_origin), flush=True)
        await depth_is(False)
        print("back", flush=True)


asyncio.run(main(), debug=sys.argv[1:] == ["debug"])
