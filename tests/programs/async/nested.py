# SPDX-License-Identifier: Apache-2.0
"""A task that runs its loop itself for another one, as nest_asyncio lets it. Needs that module. Nothing runs once it says ready."""
import asyncio

import nest_asyncio

from expect import ready

FOREVER = 3600


async def inner_child():
    await asyncio.sleep(FOREVER)


async def inner():
    await asyncio.gather(inner_child())


def call():
    asyncio.get_event_loop().run_until_complete(inner())


async def outer():
    asyncio.get_running_loop().call_later(0.2, ready)
    call()


async def beside():
    await asyncio.sleep(FOREVER)


async def main():
    await asyncio.gather(beside(), outer())


nest_asyncio.apply()
asyncio.run(main())
