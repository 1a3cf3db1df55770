# SPDX-License-Identifier: Apache-2.0
"""The oracle of line tables: what this interpreter says of the lines of code that it compiled itself.

    python3.14 make_lines.py >lines/3.14.10.txt              the samples below
    python3.14 make_lines.py --library >elsewhere            a part of its own library

Prints a line for every code object: "code", its name, its first line, the count of its units (bytes up
to 3.9), its table in hexadecimal, then begin:end:line for each range of instructions, -1 where there
is no line. From 3.10 on that is code.co_lines(), before it is dis.findlinestarts().
"""
import dis
import os
import sys

SAMPLES = r'''
"""A module with a
docstring of lines."""
import os, \
    sys
from math import (
    sin,
    cos,
)

CONSTANT = {
    "a": 1,
    "b": [x for x in range(3)
          if x],
}


def decorate(*arguments):
    def inner(function):
        return function
    return inner


@decorate(
    1,
    2)
@decorate()
def decorated(a,
              b=1,
              *rest,
              key=None,
              **others):
    return (a,
            b,
            rest)


def calls(a):
    first = decorated(
        a,
        decorated(
            1,
            2),
        key=[
            3,
            4])
    return first[
        0
    ](
        first
    ) if first else (
        a.b
         .c
         .d(
            1
        ))


def backwards(x):
    return sum(
        y
        for y in
        x
    ) + max(x,
            key=lambda each:
                each +
                1)


def branches(x):
    if x == 1:
        y = 1
    elif (x == 2 and
          x > 1
          or x):
        y = 2
    else:
        y = 3
    while x:
        x -= 1
        if x % 2:
            continue
        break
    else:
        pass
    for i in range(10):
        for j in range(i):
            if j: break
    return y


def attempts(x):
    try:
        try:
            x()
        except (ValueError,
                TypeError) as error:
            raise KeyError(
                error) from error
        except Exception:
            pass
        else:
            x = 1
        finally:
            x = 2
    finally:
        with open(
            x
        ) as first, open(
            x
        ) as second:
            return first, \
                second


async def asynchronous(x):
    async with x as y:
        await y(
            1,
        )
    async for z in x:
        yield z
    result = [
        w async for w in x
        if await w
    ]


class Klass(object,
            metaclass=type):
    """Docstring."""
    attribute: int = 1

    @property
    def value(self):
        return self.attribute

    def nested(self):
        def deeper():
            def deepest():
                nonlocal_value = self
                return nonlocal_value
            return deepest
        return deeper

    @staticmethod
    def one_line(): return 1; pass; return 2


def generator():
    x = yield 1
    yield from (
        generator())
    del x


def text(a, b):
    return (f"{a} and {b!r}"
            f"{a:{b}}"
            "tail" %
            (a,
             b))


def slices(a):
    a[
        1:
        2
    ] = a[0], \
        a[1]
    a[0] += (
        1)
    global CONSTANT
    CONSTANT = a
    assert a, (
        "message")
    return {
        **a,
        1: 2,
    }


dictionary = {k: v
              for k, v in
              CONSTANT.items()}; other = 1; third = lambda: (
    1)
'''

# Lines far apart, both ways, and code longer than one entry of a table can say.
FAR = ["def far(x):", "    a = x"]
FAR += [""] * 300 + ["    b = x"] + [""] * 127 + ["    c = x"] + [""] * 128 + ["    d = x"] + [""] * 129
FAR += ["    return f(a,"] + [""] * 260 + ["             b)"]
LONG = ["def long(x):", "    return [" + ", ".join("x.a%d" % i for i in range(300)) + ",", "        x]"]
LONG += ["def many(x):"] + ["    x = x + %d" % i for i in range(400)] + ["    return x"]
CALL = ["def call_far(f):", "    return f("] + [""] * 400 + ["        1)(", "        f", "    )"]
SOURCES = {"samples": SAMPLES, "far": "\n".join(FAR), "long": "\n".join(LONG), "call_far": "\n".join(CALL)}
if sys.version_info >= (3, 10):
    SOURCES["match"] = """
def match(x):
    match x:
        case {"a": 1,
              "b": [y, *_]}:
            return y
        case (1 |
              2) if x:
            return 1
        case Klass(a=1):
            return 2
"""


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from code_objects(constant)


def ranges_of(code):
    if hasattr(code, "co_lines"):
        return [(begin // 2, end // 2, line) for begin, end, line in code.co_lines() if begin < end]
    starts = list(dis.findlinestarts(code))
    ends = [begin for begin, _ in starts[1:]] + [len(code.co_code)]
    return [(begin, end, line) for (begin, line), end in zip(starts, ends)]


def describe(code):
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    in_units = sys.version_info >= (3, 10)
    count = len(code.co_code) // 2 if in_units else len(code.co_code)
    ranges = ["%d:%d:%d" % (begin, end, -1 if line is None else line) for begin, end, line in ranges_of(code)]
    print("code", code.co_name.replace(" ", "_"), code.co_firstlineno, count, table.hex() or "-", *ranges)


def library():
    directory = os.path.dirname(os.__file__)
    for name in ["argparse.py", "typing.py", "inspect.py", "tarfile.py", "asyncio/base_events.py"]:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            yield name, file.read()


sources = library() if "--library" in sys.argv else SOURCES.items()
for name, source in sources:
    for code in code_objects(compile(source, name, "exec")):
        describe(code)
