# SPDX-License-Identifier: Apache-2.0
"""Tasks that outlive the one that started them. A line on stdin ends the starters; what they started goes on.

Prints what is to be seen before, and "ready"; then after the line what is to be seen from then on, and "ready".
"""
import asyncio
import json
import sys

FOREVER = 3600
KEPT = []
BEFORE = {
    "p8": ["p8 [p8_inner] p8_inner"],
    "p11": ["p11 p11_helper p11_pause", "p11 p11_helper +[p11_left] p11_left"],
}
AFTER = {
    "p8": ["p8 +[p8_inner] p8_inner"],
    "p11": ["p11 p11_helper +[p11_left] p11_left"],
}


async def p8():
    async def p8_inner():
        await asyncio.sleep(FOREVER)

    inner = asyncio.ensure_future(p8_inner())
    KEPT.append(inner)
    await asyncio.shield(inner)


async def p11():
    async def p11_left():
        await asyncio.sleep(FOREVER)

    async def p11_pause():
        await asyncio.sleep(FOREVER)

    async def p11_helper():
        left = asyncio.ensure_future(p11_left())
        KEPT.append(left)
        await p11_pause()

    await p11_helper()


async def main():
    loop = asyncio.get_running_loop()
    starters = [asyncio.ensure_future(p8()), asyncio.ensure_future(p11())]
    everyone = asyncio.gather(*starters, return_exceptions=True)
    await asyncio.sleep(0.05)
    print(json.dumps(BEFORE), flush=True)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    for starter in starters:
        starter.cancel()
    await everyone
    starters.clear()
    await asyncio.sleep(0.05)
    print(json.dumps(AFTER), flush=True)
    print("ready", flush=True)
    await asyncio.sleep(FOREVER)


asyncio.run(main())
