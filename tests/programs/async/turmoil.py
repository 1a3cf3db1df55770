# SPDX-License-Identifier: Apache-2.0
"""Tasks that come and go as fast as they can, are cancelled in storms, and are dropped while they wait.

Function names tell what may stand above what: born_N stands below breed_N alone. Argument: seconds.
"""
import asyncio
import sys
import time

end = time.monotonic() + float(sys.argv[1])

FAMILY = """
async def born_{0}_two():
    await sleep(0)

async def born_{0}(deep):
    if deep: await born_{0}_two()
    else: await sleep(0)

async def breed_{0}():
    while time() < end:
        tasks = [ensure_future(born_{0}(i & 1)) for i in range(50)]
        await gather(*tasks)
        await wait([ensure_future(born_{0}(i & 1)) for i in range(10)])

async def storm_{0}():
    while time() < end:
        tasks = [ensure_future(born_{0}(1)) for _ in range(50)]
        await sleep(0)
        for task in tasks: task.cancel()
        await gather(*tasks, return_exceptions=True)
"""


async def main():
    space = {"sleep": asyncio.sleep, "ensure_future": asyncio.ensure_future, "gather": asyncio.gather,
             "wait": asyncio.wait, "time": time.monotonic, "end": end}
    for number in range(4):
        exec(compile(FAMILY.format(number), "family.py", "exec"), space)
    jobs = [space["%s_%d" % (kind, number)]() for number in range(4) for kind in ("breed", "storm")]
    asyncio.get_running_loop().call_later(0.02, print, "ready")
    asyncio.get_running_loop().call_later(0.03, sys.stdout.flush)
    await asyncio.gather(*jobs)


asyncio.run(main())
