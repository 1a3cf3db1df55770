# SPDX-License-Identifier: Apache-2.0
"""Tasks that do nothing but step, one after the other: each has a way of its own through functions that are named
by its number, so that no two tasks' frames may stand in one stack. Arguments: seconds, tasks.
"""
import asyncio
import sys
import time

end = time.monotonic() + float(sys.argv[1])

WAY = """
async def step_{0}():
    await sleep(0)

async def way_{0}():
    await step_{0}()

async def job_{0}():
    while time() < end:
        await way_{0}()
"""


async def main():
    space = {"sleep": asyncio.sleep, "time": time.monotonic, "end": end}
    jobs = []
    for number in range(int(sys.argv[2])):
        exec(compile(WAY.format(number), "steps.py", "exec"), space)
        jobs.append(space["job_%d" % number]())
    asyncio.get_running_loop().call_later(0.05, lambda: print("ready", flush=True))
    await asyncio.gather(*jobs)


asyncio.run(main())
