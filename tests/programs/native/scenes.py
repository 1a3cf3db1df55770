# SPDX-License-Identifier: Apache-2.0
"""Scenes of Python and C code that call each other; each goes on until stdin ends.

Usage: scenes.py SCENE [LIBRARY...]

Says ready when the scene has begun. LIBRARY: native/scenes.c, or the plugins, built.
"""
import ctypes
import functools
import os
import re
import select
import signal
import sys
import threading
import time

scene, libraries = sys.argv[1], sys.argv[2:]
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def is_over():
    return bool(select.select([sys.stdin], [], [], 0)[0])


def until_over(work):
    print("ready", flush=True)
    while not is_over():
        for _ in range(50):
            work()


def spin(rounds=300):
    total = 0
    for i in range(rounds):
        total += i
    return total


def recursion():
    def f(depth):
        return f(depth - 1) if depth else spin(3000)

    until_over(lambda: f(50))


def nested():
    """Eight levels of Python with C code between each two."""
    def level0():
        return sorted([1], key=level1)

    def level1(_):
        return re.sub("x", level2, "x")

    def level2(_):
        return str(list(map(level3, [1])))

    def level3(_):
        return functools.reduce(level4, [1, 2])

    def level4(_a, _b):
        return max([1, 2], key=level5)

    def level5(_):
        return sorted([1], key=level6)

    def level6(_):
        return list(map(level7, [1]))

    def level7(_):
        return spin(500)

    until_over(level0)


def released():
    """A thread that compresses without the GIL, and the main thread in a lock."""
    import zlib

    data = bytes(range(256)) * 4096
    lock = threading.Lock()
    lock.acquire()

    def compress():
        while True:
            zlib.compress(data, 9)

    def waits():
        lock.acquire()

    threading.Thread(target=compress, name="compress", daemon=True).start()
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print("ready", flush=True)
    waits()


def generators():
    def numbers():
        for i in range(200):
            spin(20)
            yield i

    def doubled(source):
        for i in source:
            yield 2 * i

    def kept(source):
        for i in doubled(source):
            yield i

    until_over(lambda: sum(kept(numbers())))


def coroutines():
    async def leaf():
        return spin(500)

    async def middle():
        return await leaf()

    async def top():
        return await middle()

    def drive():
        try:
            top().send(None)
        except StopIteration:
            pass

    until_over(drive)


def handler():
    library = ctypes.CDLL(libraries[0])
    library.install_slow_handler(signal.SIGUSR2)

    def interrupted():
        os.kill(os.getpid(), signal.SIGUSR2)
        return spin()

    until_over(interrupted)


def hot():
    """What a JIT compiles, with callbacks out of C code."""
    def key(value):
        total = 0
        for i in range(100):
            total += i * value
        return total

    def work():
        total = 0
        for value in sorted(range(50), key=key):
            total += value
        return total

    until_over(work)


def cython():
    library = ctypes.CDLL(libraries[0])
    run = getattr(library, "__pyx_pw_5hello_1run")

    def cb(value):
        return spin(500) % 100 + value

    call = CALLBACK(cb)
    until_over(lambda: run(call, 1))


def through_c():
    library = ctypes.CDLL(libraries[0])

    def cb(value):
        return spin(500) % 100 + value

    call = CALLBACK(cb)
    until_over(lambda: library.through_c(call, 1))


def greenlets():
    """Two that take turns, each begun below C code of its own; what lies below a greenlet on the stack is another's."""
    from greenlet import greenlet

    library = ctypes.CDLL(libraries[0])

    def first_work():
        return spin(500)

    def second_work():
        return spin(500)

    def first_body():
        while True:
            first_work()
            second.switch()

    def second_body():
        while True:
            second_work()
            first.switch()

    first, second = greenlet(first_body), greenlet(second_body)
    print("ready", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()

    def below(_):
        first.switch()
        return 0

    call = CALLBACK(below)
    library.through_c(call, 1)


def pool():
    library = ctypes.CDLL(libraries[0])
    for _ in range(2):
        assert library.start_pool() == 0
    print("ready", flush=True)
    sys.stdin.read()


def attached():
    library = ctypes.CDLL(libraries[0])
    assert library.start_attached() == 0
    print("ready", flush=True)
    sys.stdin.read()


def idle():
    """One busy thread, a hundred in epoll_wait; then says how often they were woken."""
    library = ctypes.CDLL(libraries[0])
    threading.stack_size(256 << 10)
    polls = [select.epoll() for _ in range(100)]
    for poll in polls:
        threading.Thread(target=library.wait_for_ever, args=(poll.fileno(),), daemon=True).start()
    until_over(spin)
    print(library.interruption_count(), flush=True)
    os._exit(0)


def timer():
    """Its ticks against the clock, each second or so."""
    library = ctypes.CDLL(libraries[0])
    library.stop_timer.restype = ctypes.c_long
    period = 2_000_000
    assert library.start_timer(ctypes.c_long(period)) == 0
    began = time.monotonic_ns()
    until_over(spin)
    before = time.monotonic_ns()
    ticks = library.stop_timer()
    after = time.monotonic_ns()
    # start_timer() and stop_timer() happened somewhere within these.
    print('{"ticks": %d, "least": %d, "most": %d}' % (ticks, (before - began) // period - 1, (after - began) // period + 2), flush=True)
    os._exit(0)


def vfork():
    """One thread in vfork, whose child ends when the other thread has done its work; again and again."""
    library = ctypes.CDLL(libraries[0])

    def child():
        library.vfork_and_read(ends[0])

    print("ready", flush=True)
    rounds = 0
    while not is_over():
        ends = os.pipe()
        thread = threading.Thread(target=child)
        thread.start()
        for _ in range(300):
            spin()
        os.write(ends[1], b"x")
        thread.join()
        for end in ends:
            os.close(end)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        rounds += 1
    print(rounds, flush=True)


def held():
    """One thread, the main one or another, is in vfork until the end. The other one says for each line of stdin for how long
    it was kept from running at most since the line before: by the clock, less the time that it ran or waited for a processor."""
    library = ctypes.CDLL(libraries[0])
    told, tell = os.pipe()
    forks = threading.Event()
    forking = []

    def fork():
        forking.append(threading.get_native_id())
        forks.set()
        library.vfork_and_read(told)

    def is_in_vfork():
        with open("/proc/self/task/%d/stat" % forking[0]) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "D"

    def watch():
        forks.wait()
        while not is_in_vfork():
            pass
        account = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        print("ready", flush=True)
        longest = 0
        accounted, last = None, 0
        while True:
            line = os.read(0, 64) if is_over() else None
            if line == b"":
                os.write(tell, b"x")
                os._exit(0)
            if line is not None:
                print('{"held": %f}' % (longest / 1e9), flush=True)
                longest, accounted = 0, None
            spin()
            before = accounted
            accounted, now = sum(map(int, os.pread(account, 64, 0).split()[:2])), time.monotonic_ns()
            if before is not None:
                longest = max(longest, now - last - (accounted - before))
            last = now

    other, own = (watch, fork) if libraries[1] == "main" else (fork, watch)
    threading.Thread(target=other, daemon=True).start()
    own()


def plugins():
    """Two plugins, the second where the first has stood; calls of each by a function of its own."""
    import _ctypes

    def call_first(run):
        run(ctypes.c_long(20000))

    def call_second(run):
        run(ctypes.c_long(20000))

    print("ready", flush=True)
    first = ctypes.CDLL(libraries[0])
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        call_first(first.run_plugin)
    _ctypes.dlclose(first._handle)
    second = ctypes.CDLL(libraries[1])
    while not is_over():
        call_second(second.run_plugin)
    os._exit(0)


def jitdump():
    library = ctypes.CDLL(libraries[0])
    assert library.make_code(libraries[1].encode()) == 0

    def calls_made():
        library.run_made(ctypes.c_long(20000))

    until_over(calls_made)


def burning():
    library = ctypes.CDLL(libraries[0])
    until_over(lambda: library.burn_in_c(ctypes.c_long(20000)))


def deleted():
    library = ctypes.CDLL(libraries[0])
    os.unlink(libraries[0])
    until_over(lambda: library.burn_in_c(ctypes.c_long(20000)))


globals()[scene]()
