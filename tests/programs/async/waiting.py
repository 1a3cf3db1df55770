# SPDX-License-Identifier: Apache-2.0
"""Tasks that wait, in every way in which one task can wait for another. Nothing runs once it says ready.

Each scenario is a task of its own below main; functions carry the scenario's number, so that a frame of one
in a stack of another shows at once. scenario() holds the stacks of its leaves: see expect.py.
"""
import asyncio
import concurrent.futures
import threading
import types

from expect import chosen, ready, run, scenario

FOREVER = 3600
KEPT = []  # what only the program itself holds


async def rest():
    await asyncio.sleep(FOREVER)


@scenario("s1 [s1_a] s1_a [s1_b] s1_b")
async def s1():
    async def s1_b():
        await asyncio.sleep(FOREVER)

    async def s1_a():
        await asyncio.ensure_future(s1_b())

    await asyncio.ensure_future(s1_a())


@scenario("s2 [s2_c] s2_c s2_d")
async def s2():
    async def s2_d():
        await asyncio.sleep(FOREVER)

    async def s2_c(number):
        await s2_d()

    await asyncio.gather(s2_c(1), s2_c(2), s2_c(3))


# Up to 3.11 wait_for makes a task of what it is given.
async def s3_c():
    await asyncio.sleep(FOREVER)


async def s3_inner():
    await asyncio.gather(s3_c(), s3_c())


@scenario("s3 [s3_outer] s3_outer [s3_inner] s3_inner [s3_c] s3_c", before=(3, 12))
@scenario("s3 [s3_outer] s3_outer s3_inner [s3_c] s3_c", since=(3, 12))
async def s3():
    async def s3_outer():
        await asyncio.wait_for(s3_inner(), FOREVER)

    await asyncio.gather(s3_outer())


@scenario("s4 [s4_child] s4_child", since=(3, 11))
async def s4():
    async def s4_child():
        await asyncio.sleep(FOREVER)

    async with asyncio.TaskGroup() as group:
        group.create_task(s4_child())


# The parent waits for something else: it is a leaf, and so is the child.
@scenario("s5 s5_body", "s5 +[s5_child] s5_child", since=(3, 11))
async def s5():
    async def s5_child():
        await asyncio.sleep(FOREVER)

    async def s5_body():
        await asyncio.sleep(FOREVER)

    async with asyncio.TaskGroup() as group:
        group.create_task(s5_child())
        await s5_body()


@scenario("s6 [s6_one] s6_one [s6_two] s6_two [s6_three] s6_three", since=(3, 11))
async def s6():
    async def s6_three():
        await asyncio.sleep(FOREVER)

    async def s6_two():
        async with asyncio.TaskGroup() as group:
            group.create_task(s6_three())

    async def s6_one():
        async with asyncio.TaskGroup() as group:
            group.create_task(s6_two())

    async with asyncio.TaskGroup() as group:
        group.create_task(s6_one())


@scenario("s7 [s7_child] s7_child")
async def s7():
    async def s7_child():
        await asyncio.sleep(FOREVER)

    tasks = [asyncio.ensure_future(s7_child()), asyncio.ensure_future(s7_child())]
    await asyncio.wait(tasks, timeout=FOREVER, return_when=asyncio.FIRST_COMPLETED)


@scenario("s8 [s8_inner] s8_inner")
async def s8():
    async def s8_inner():
        await asyncio.sleep(FOREVER)

    await asyncio.shield(asyncio.ensure_future(s8_inner()))


@scenario("s9 [s9_child] s9_child")
async def s9():
    async def s9_child():
        await asyncio.sleep(FOREVER)

    for one in asyncio.as_completed([s9_child(), s9_child()]):
        await one


@scenario("s9_async [s9_async_child] s9_async_child", since=(3, 13))
async def s9_async():
    async def s9_async_child():
        await asyncio.sleep(FOREVER)

    async for _ in asyncio.as_completed([asyncio.ensure_future(s9_async_child())]):
        pass


# A task that nobody waits for, held by a local of the one that started it.
@scenario("s10 s10_other", "s10 +[s10_child] s10_child")
async def s10():
    async def s10_child():
        await asyncio.sleep(FOREVER)

    async def s10_other():
        await asyncio.sleep(FOREVER)

    child = asyncio.ensure_future(s10_child())
    await s10_other()
    del child


# Three wait for one: each has its share of it.
@scenario("s12 [s12_first] s12_first [s12_shared] s12_shared", "s12 [s12_second] s12_second [s12_shared] s12_shared",
          "s12 [s12_third] s12_third [s12_shared] s12_shared")
async def s12():
    async def s12_shared():
        await asyncio.sleep(FOREVER)

    shared = asyncio.ensure_future(s12_shared())

    async def s12_first():
        await shared

    async def s12_second():
        await shared

    async def s12_third():
        await shared

    await asyncio.gather(s12_first(), s12_second(), s12_third())


# Two that wait for each other: nobody waits for them, so they stand alone, and both are seen.
@scenario("= [await cycle] [s13_b] s13_b [s13_a] s13_a", "= [await cycle] [s13_a] s13_a [s13_b] s13_b", "s13 rest")
async def s13():
    pair = {}

    async def s13_a():
        await pair["b"]

    async def s13_b():
        await pair["a"]

    def start():
        for name, function in (("a", s13_a), ("b", s13_b)):
            pair[name] = asyncio.ensure_future(function())
        KEPT.append(pair)

    start()
    await rest()


@scenario("s16 s16_one s16_two s16_three s16_leaf")
async def s16():
    async def s16_leaf():
        await asyncio.sleep(FOREVER)

    async def s16_three():
        await s16_leaf()
        yield 1

    async def s16_two():
        async for one in s16_three():
            yield one

    async def s16_one():
        async for one in s16_two():
            yield one

    async for _ in s16_one():
        pass


@scenario("s16_next s16_next_one s16_next_leaf", since=(3, 10))
async def s16_next():
    async def s16_next_leaf():
        await asyncio.sleep(FOREVER)

    async def s16_next_one():
        await s16_next_leaf()
        yield 1

    await anext(s16_next_one(), None)  # noqa: F821: a name of 3.10


@scenario("s16_close s16_close_one s16_close_leaf")
async def s16_close():
    async def s16_close_leaf():
        await asyncio.sleep(FOREVER)

    async def s16_close_one():
        try:
            yield 1
        finally:
            await s16_close_leaf()

    generator = s16_close_one()
    await generator.__anext__()
    await generator.aclose()


@scenario("s17 __await__ s17_old s17_leaf")
async def s17():
    async def s17_leaf():
        await asyncio.sleep(FOREVER)

    @types.coroutine
    def s17_old():
        yield from s17_leaf().__await__()

    class Awaitable:
        def __await__(self):
            return (yield from s17_old())

    await Awaitable()


# The worker's thread hangs below the task that gave it the work.
@scenario("s18 s18_ask")
async def s18():
    def s18_work():
        threading.Event().wait(FOREVER)

    async def s18_ask():
        pool = concurrent.futures.ThreadPoolExecutor(1, "s18")
        KEPT.append(pool)
        await asyncio.get_running_loop().run_in_executor(pool, s18_work)

    await s18_ask()


@scenario("s18_thread s18_thread_ask", since=(3, 9))
async def s18_thread():
    def s18_thread_work():
        threading.Event().wait(FOREVER)

    async def s18_thread_ask():
        await asyncio.to_thread(s18_thread_work)

    await s18_thread_ask()


@scenario("s22 [s22_consumer] s22_consumer")
async def s22():
    queue = asyncio.Queue()

    async def s22_consumer():
        while True:
            await queue.get()

    await asyncio.gather(*[s22_consumer() for _ in range(100)])


# Who tells a queue that an item is done with does not wake who waits for the next one.
@scenario("s31", "s31_handle")
async def s31():
    queue = asyncio.Queue()

    async def s31_handle():
        await asyncio.sleep(FOREVER)

    queue.put_nowait(s31_handle)
    while True:
        handle = await queue.get()
        asyncio.ensure_future(handle()).add_done_callback(lambda _: queue.task_done())


# Tasks that are no plain asyncio.Task, and one that has a name of its own.
@scenario("s29 [s29_sub] s29_sub", "s29 [s29_pure] s29_pure", "s29 [the seventh] s29_named")
async def s29():
    class Mine(asyncio.Task):
        pass

    async def s29_sub():
        await asyncio.sleep(FOREVER)

    async def s29_pure():
        await asyncio.sleep(FOREVER)

    async def s29_named():
        await asyncio.sleep(FOREVER)

    loop = asyncio.get_running_loop()
    tasks = [Mine(s29_sub(), loop=loop), asyncio.tasks._PyTask(s29_pure(), loop=loop),
             asyncio.tasks.Task(s29_named(), loop=loop, name="the seventh")]
    await asyncio.gather(*tasks)


async def main():
    tasks = [asyncio.ensure_future(function()) for function in chosen()]
    # Every task has come to rest when some rounds of the loop have found nothing ready.
    for _ in range(50):
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, ready)
    await asyncio.gather(*tasks)


run(main())
