# SPDX-License-Identifier: Apache-2.0
"""How SQLAlchemy calls synchronous code from a coroutine: in a greenlet, which hands over what it has to wait for."""
import greenlet


class Spawned(greenlet.greenlet):
    pass


def await_only(awaitable):
    return greenlet.getcurrent().parent.switch(awaitable)


async def spawn(function, *arguments):
    context = Spawned(function, greenlet.getcurrent())
    result = context.switch(*arguments)
    while not context.dead:
        value = await result
        result = context.switch(value)
    return result
