# SPDX-License-Identifier: Apache-2.0
"""Threads that wait, each below another kind of call, for a test that looks at the callers' bytecode.

Prints the address of _PyRuntime and the numbers that this interpreter's own modules give opcodes,
then "ready"; then waits until its standard input is closed. For 3.11 and later.
"""
import ctypes
import opcode
import sys
import threading

WARM = 200
gate = threading.Event()
waiting = threading.Semaphore(0)


def leaf(block):
    if block:
        waiting.release()
        gate.wait()
    return 0


def with_default(block, more=1):
    leaf(block)
    return more


class Object:
    def __init__(self, block=False):
        leaf(block)
        self.block = block

    def method(self, block):
        leaf(block)

    @property
    def attribute(self):
        return leaf(self.block)

    def __getitem__(self, block):
        return leaf(block)


class Overridden:
    def __getattribute__(self, name):
        return leaf(name == "stop")


def generator(block):
    yield 1
    yield leaf(block)


async def coroutine(block):
    return leaf(block)


async def awaits(block):
    await coroutine(block)


def delegates(block):
    yield from generator(block)


def run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration:
        pass


def each(function):
    for i in range(WARM):
        function(i == WARM - 1)


def call_plain():
    for i in range(WARM):
        leaf(i == WARM - 1)


def call_default():
    for i in range(WARM):
        with_default(i == WARM - 1)


def call_method():
    o = Object()
    for i in range(WARM):
        o.method(i == WARM - 1)


def call_bound():
    bound = Object().method
    for i in range(WARM):
        bound(i == WARM - 1)


def call_keyword():
    for i in range(WARM):
        leaf(block=i == WARM - 1)


def call_method_keyword():
    o = Object()
    for i in range(WARM):
        o.method(block=i == WARM - 1)


def call_star():
    for i in range(WARM):
        leaf(*(i == WARM - 1,))


def call_class():
    for i in range(WARM):
        Object(i == WARM - 1)


def call_generator():
    for i in range(WARM):
        for _ in generator(i == WARM - 1):
            pass


def call_delegate():
    for i in range(WARM):
        for _ in delegates(i == WARM - 1):
            pass


def call_await():
    for i in range(WARM):
        run(awaits(i == WARM - 1))


def call_property():
    o = Object()
    for i in range(WARM):
        o.block = i == WARM - 1
        o.attribute


def call_item():
    o = Object()
    for i in range(WARM):
        o[i == WARM - 1]


def call_getattribute():
    o = Overridden()
    for name in ["go"] * WARM + ["stop"]:
        if name == "go":
            pass
        o.stop if name == "stop" else o.go


def call_through_c():
    for i in range(WARM):
        sorted([i == WARM - 1], key=leaf)


def call_cold():
    leaf(True)


def call_recursive(depth=0):
    if depth == 50:
        leaf(True)
    else:
        call_recursive(depth + 1)


def numbers():
    if sys.version_info >= (3, 13):
        import _opcode_metadata

        yield from _opcode_metadata.opmap.items()
        yield from _opcode_metadata._specialized_opmap.items()
        return
    # The build gives specialised instructions the numbers that are free, in order
    # (Tools/build/generate_opcode_h.py).
    taken = {number for number in opcode.opmap.values() if number < 256}
    yield from opcode.opmap.items()
    number = 1
    for name in opcode._specialized_instructions:
        while number in taken:
            number += 1
        taken.add(number)
        yield name, number


print("runtime", ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")))
for name, number in numbers():
    print("opcode", name, number)
calls = [value for name, value in list(globals().items()) if name.startswith("call_")]
for call in calls:
    threading.Thread(target=call, daemon=True).start()
for call in calls:
    waiting.acquire()
print("threads", len(calls))
print("ready", flush=True)
sys.stdin.read()
gate.set()
