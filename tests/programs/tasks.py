# SPDX-License-Identifier: Apache-2.0
"""Tasks that wait in every way that asyncio offers; tells what it knows of them, then waits for stdin to close.

Each task is named "parent/way/number": the task that awaits it and the function by which, as the program was
written. The chain of coroutines is what cr_await, gi_yieldfrom and ag_await say.
"""
import asyncio
import json
import os
import sys


async def leaf():
    await asyncio.sleep(3600)


async def child():
    await leaf()


class Awaitable:
    def __await__(self):
        yield from leaf().__await__()


async def generator():
    await leaf()
    yield 1


def named(name, coroutine):
    task = asyncio.ensure_future(coroutine)
    getattr(task, "set_name", str)(name)
    KEEP.append(task)
    return task


KEEP = []


async def top_await():
    await named("top_await/await/1", child())


async def top_gather():
    await asyncio.gather(named("top_gather/gather/1", child()), named("top_gather/gather/2", child()))


async def top_nested():
    inner = asyncio.gather(named("top_nested/gather/1", child()))
    await asyncio.gather(inner, named("top_nested/gather/2", child()))


async def top_wait():
    await asyncio.wait([named("top_wait/wait/1", child()), named("top_wait/wait/2", child())], timeout=3600)


async def top_wait_for():
    # Up to 3.11 wait_for() has a future of its own; from 3.12 on it awaits the task.
    way = "wait_for" if sys.version_info < (3, 12) else "await"
    await asyncio.wait_for(named("top_wait_for/%s/1" % way, child()), 3600)


async def top_shield():
    await asyncio.shield(named("top_shield/shield/1", child()))


async def top_as_completed():
    for first in asyncio.as_completed([named("top_as_completed/as_completed/%d" % i, child()) for i in (1, 2)]):
        await first


async def top_group():
    async with asyncio.TaskGroup() as group:
        KEEP.append(group.create_task(child(), name="top_group/task_group/1"))


async def top_group_body():
    async with asyncio.TaskGroup() as group:
        KEEP.append(group.create_task(child(), name="top_group_body/task_group!/1"))
        await leaf()


async def top_generator():
    async for _ in generator():
        pass


async def top_awaitable():
    await Awaitable()


async def top_queue():
    await asyncio.Queue().get()


async def top_ring(number, ring):
    await ring[1 - number]


def chain_of(coroutine):
    """[(name, line)] from the outermost coroutine on, as far as attributes lead."""
    chain = []
    while True:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(coroutine, kind + "_frame", None)
            if frame is not None:
                break
        else:
            return chain
        chain.append((frame.f_code.co_name, frame.f_lineno))
        coroutine = getattr(coroutine, {"cr": "cr_await", "gi": "gi_yieldfrom", "ag": "ag_await"}[kind])
        if coroutine is None:
            return chain


def call_graph_of(task):
    """What the interpreter itself says from 3.14 on: the tasks that await it, and its frames, leaf first."""
    if not hasattr(asyncio, "capture_call_graph") or task.get_name().startswith("ring"):
        return None  # of a circle it can't tell
    graph = asyncio.capture_call_graph(task)
    awaiters, open_ = set(), list(graph.awaited_by)
    while open_:
        entry = open_.pop()
        if isinstance(entry.future, asyncio.Task):
            awaiters.add(entry.future.get_name())
        else:
            open_ += entry.awaited_by
    return {"awaiters": sorted(awaiters), "frames": [entry.frame.f_code.co_name for entry in graph.call_stack]}


def account():
    tasks = []
    for task in asyncio.all_tasks(LOOP[0]):
        waits_for = getattr(task, "_fut_waiter", None)
        tasks.append({
            "id": hex(id(task)),
            "name": task.get_name(),
            "call_graph": call_graph_of(task),
            "chain": chain_of(task.get_coro() if hasattr(task, "get_coro") else task._coro),
            "waiting_on": type(waits_for).__name__ if waits_for is not None and not waits_for.done() else None,
        })
    print(json.dumps(tasks), flush=True)


def account_after(rounds):
    """Each round of the loop lets every task that can take a step take one."""
    if rounds == 0:
        return account()
    LOOP[0].call_soon(account_after, rounds - 1)


LOOP = []


async def main():
    LOOP.append(asyncio.get_running_loop())
    ends = LOOP[0].create_future()
    LOOP[0].add_reader(sys.stdin.fileno(), lambda: os.read(sys.stdin.fileno(), 1) or ends.done() or ends.set_result(None))
    tops = [top_await, top_gather, top_nested, top_wait, top_wait_for, top_shield, top_as_completed, top_generator,
            top_awaitable, top_queue]
    if hasattr(asyncio, "TaskGroup"):
        tops += [top_group, top_group_body]
    for top in tops:
        named(top.__name__, top())
    ring = []
    ring += [named("ring_%d/await/ring" % (1 - i), top_ring(i, ring)) for i in (0, 1)]
    account_after(rounds=100)
    await ends
    os._exit(0)


asyncio.run(main())
