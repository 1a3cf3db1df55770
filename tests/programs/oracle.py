# SPDX-License-Identifier: Apache-2.0
"""Ground truth for dump: threads blocked at known places, each below callers of another kind.

Prints one line of JSON (see groundtruth.py) when all are blocked, and ends at the end of stdin.
"""
import os
import sys
import threading

from groundtruth import Report

report = Report()
# A read of this pipe is the call in which every thread blocks: no Python frame lies above it.
wait_end, write_end = os.pipe()


def block():
    report.here(); os.read(wait_end, 1)  # noqa: E702


def plain():
    block()


def call_over_many_lines():
    values = [
        1,
        2,
    ]
    return identity(
        values,
        blocked_after(
            "the argument on the second line",
        ),
    )


def identity(*values):
    return values


def blocked_after(_reason):
    x = 1
    for _ in range(3):
        x += 1
    if x == 4:
        block()
    return x


class Outer:
    class Inner:
        def method(self):
            self.static()

        @staticmethod
        def static():
            Outer.of_class()

    @classmethod
    def of_class(cls):
        block()

    @property
    def attribute(self):
        return self.Inner().method()


def decorated(function):
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


@decorated
@decorated
def below_decorators():
    block()


def closures():
    def middle():
        inner = lambda: block()  # noqa: E731
        return inner()

    return [middle() for _ in range(1)]


def across_c():
    """Python below C below Python: sorted() calls the key, map() the function."""
    return sorted(map(lambda value: (block(), value)[1], [1]), key=lambda value: value)


def recursive(depth):
    if depth:
        return recursive(depth - 1)
    return block()


def generator(depth):
    if depth:
        for value in generator(depth - 1):
            yield value
    block()
    yield depth


def generators():
    for value in generator(3):
        return value


def generator_from(depth):
    if depth:
        yield from generator_from(depth - 1)
    block()
    yield depth


def delegating_generators():
    return list(generator_from(3))


async def coroutine(depth):
    if depth:
        return await coroutine(depth - 1)
    block()


def coroutines():
    top = coroutine(3)
    try:
        top.send(None)
    except StopIteration:
        pass


class Dying:
    def __del__(self):
        block()


def in_a_finaliser():
    dying = Dying()
    del dying


def in_an_exception_handler():
    try:
        try:
            raise ValueError("for the traceback")
        except ValueError:
            try:
                raise KeyError("again")
            finally:
                block()
    except KeyError:
        pass


# Line tables keep differences: far ones need more than one entry.
exec(compile("def far_below():\n" + "\n" * 700 + "    x = 1\n" + "\n" * 300 + "    block()\n    return x\n",
             "far_below.py", "exec"))
# Backwards differences, and one statement that runs on for hundreds of lines.
exec(compile("def long_call():\n    return identity(\n" + "        0,\n" * 300 + "        block(),\n    )\n",
             "long_call.py", "exec"))
# One function with far more constants and names than one byte counts: wide instructions.
exec(compile("def wide():\n" + "".join("    v%d = %d.5\n" % (i, i) for i in range(600))
             + "    block()\n    return v599\n", "wide.py", "exec"))

BODIES = [
    plain, call_over_many_lines, lambda: Outer().attribute, below_decorators, closures, across_c,
    lambda: recursive(40), generators, delegating_generators, coroutines, in_a_finaliser,
    in_an_exception_handler, far_below, long_call, wide,  # noqa: F821
]


def main():
    threads = [
        threading.Thread(target=body, name="thread %d %s" % (number, body.__name__), daemon=True)
        for number, body in enumerate(BODIES)
    ]
    for thread in threads:
        thread.start()
    report.wait_for(len(threads))
    report.here(main=True); report.publish(python=sys.version.split()[0], pid=os.getpid()), sys.stdin.read()  # noqa: E702
    os.write(write_end, b"x" * 1000)


main()
