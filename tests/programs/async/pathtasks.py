# SPDX-License-Identifier: Apache-2.0
"""A tree of tasks whose functions are named by their path: n awaits n_0, n_1 or n_2, each a task or a plain
coroutine by turns, and so on. A stack is possible when each name extends the one above by one number.

Arguments: seconds, trees at work side by side, and "busy" (leaves work for some microseconds) or "wait"
(leaves sleep, so that most of the tasks wait).
"""
import asyncio
import sys
import time

BRANCHES, DEPTH = 3, 5
SECONDS = float(sys.argv[1])
TREES = int(sys.argv[2])
WAITS = sys.argv[3:] == ["wait"]

NODE = """
async def {name}(turn):
    which = turn % 3
    if turn % 2:
        if which == 0: await ensure_future({name}_0(turn // 3))
        elif which == 1: await ensure_future({name}_1(turn // 3))
        else: await ensure_future({name}_2(turn // 3))
    else:
        if which == 0: await {name}_0(turn // 3)
        elif which == 1: await {name}_1(turn // 3)
        else: await {name}_2(turn // 3)
"""
LEAF = """
async def {name}(turn):
    for _ in range(turn % 40): pass
    await sleep({pause})
"""


def write(name, depth):
    if depth == 0:
        return LEAF.format(name=name, pause="0.001" if WAITS else "0")
    return NODE.format(name=name) + "".join(write("%s_%d" % (name, i), depth - 1) for i in range(BRANCHES))


space = {"ensure_future": asyncio.ensure_future, "sleep": asyncio.sleep}
exec(compile(write("n", DEPTH), "tree.py", "exec"), space)
n = space["n"]


async def trunk(seed, end):
    turn = seed
    while time.monotonic() < end:
        turn = (turn * 1103515245 + 12345) % (1 << 31)
        await n(turn >> 7)


async def main():
    end = time.monotonic() + SECONDS
    trunks = [asyncio.ensure_future(trunk(seed, end)) for seed in range(1, TREES + 1)]
    await asyncio.sleep(0.05)
    print("ready", flush=True)
    await asyncio.gather(*trunks)


asyncio.run(main())
