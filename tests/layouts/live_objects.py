# SPDX-License-Identifier: Apache-2.0
"""Objects that a test reads from outside, with what this interpreter says of them.

Prints one fact a line, its words separated by spaces, texts in hexadecimal; then "ready"; then waits
until its standard input is closed. Runs on every version from 3.8 on.
"""
import ctypes
import sys
import threading

keep = []


def hexa(text):
    return text.encode("utf-8", "surrogatepass").hex() or "-"


def say(kind, what, *facts):
    keep.append(what)
    print(kind, id(what), *facts)


print("runtime", ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")))

# Strings of each kind; those built at run time are not shared with constants.
for text in ["", "a", "x" * 39, "plain", "caf\u00e9", "\u03b1\u03b2\u03b3", "a\u20ac" * 100, "\U0001f40d snake",
             "lone \ud800 surrogate", "nul\0inside", "\x7f\x80\xff", "long " * 700]:
    say("str", text, hexa(text))
    say("str", "".join(list(text) + ["!"]), hexa(text + "!"))

for number in [0, 1, -1, 5, 255, 256, 257, 2**30 - 1, 2**30, -(2**30), 2**59, 2**60, 2**61 + 12345, 2**63 - 1,
               -(2**63), 2**64 - 1, 140000000000000]:
    say("int", number, number % 2**64)
for number in [2**64, -(2**63) - 1, 10**40]:
    say("bigint", number)

for content in [b"", b"z", bytes(range(256)), b"\0" * 3000]:
    say("bytes", content, content.hex() or "-")

one, two, three = object(), object(), object()
keep += [one, two, three]
say("tuple", ())
say("tuple", (one,), id(one))
say("tuple", (one, two, three), id(one), id(two), id(three))
say("tuple", tuple([one] * 100), *[id(one)] * 100)


class Plain:
    def __init__(self, count=0):
        self.first = one
        self._name = two
        for i in range(count):
            setattr(self, "attribute_%d" % i, three)


class WithSlots:
    __slots__ = ("here",)


class Child(Plain):
    pass


class Subclassed(dict):
    pass


def facts_of_dict(table):
    return [fact for key, value in table.items() for fact in (hexa(key), id(value))]


def say_dict(table):
    say("dict", table, *facts_of_dict(table))


say_dict({})
say_dict({"a": one})
say_dict({"key_%d" % i: one for i in range(10)})
say_dict({"key_%d" % i: two for i in range(200)})
say_dict({"key_%d" % i: two for i in range(300)})
say_dict({"key_%d" % i: two for i in range(20000)})
holes = {"key_%d" % i: three for i in range(30)}
for i in range(0, 30, 3):
    del holes["key_%d" % i]
say_dict(holes)
with_other_keys = {"text": one, 5: two, (1, 2): three}
say("find", with_other_keys, hexa("text"), id(one))
say("find", with_other_keys, hexa("absent"), 0)
say_dict({"caf\u00e9": one, "\u03b1": two})
shared = Plain()
say_dict(shared.__dict__)
keep.append(shared)
subclassed = Subclassed(a=one)
say_dict(subclassed)
say("find", sys.modules, hexa("threading"), id(threading))
say("find", sys.modules, hexa("no such module"), 0)
print("module", id(threading), id(threading.__dict__))


def say_attributes(instance, *names):
    for name in names:
        say("attribute", instance, hexa(name), id(getattr(instance, name, None)) if hasattr(instance, name) else 0)


say_attributes(Plain(), "first", "_name", "absent")
say_attributes(Plain(5), "first", "attribute_4", "absent")
say_attributes(Plain(50), "first", "attribute_49", "absent")
say_attributes(Child(), "first", "_name")
materialised = Plain()
materialised.__dict__
say_attributes(materialised, "first", "_name", "absent")
materialised = Plain()
materialised.__dict__["extra"] = three
say_attributes(materialised, "first", "extra")
replaced = Plain()
replaced.__dict__ = {"only": two}
say_attributes(replaced, "only", "first")
deleted = Plain()
del deleted.first
say_attributes(deleted, "first", "_name")
say_attributes(subclassed, "absent")
say("attribute", WithSlots(), hexa("absent"), 0)
say_attributes(ValueError("x"), "absent")

for kind in [int, Plain, Child, type, threading.Thread]:
    say("type", kind, hexa(kind.__name__))

waiting = threading.Event()
for name in ["worker", "caf\u00e9-\u03b1", "x" * 100]:
    started = threading.Event()

    def run(started=started):
        started.set()
        waiting.wait()

    threading.Thread(target=run, name=name, daemon=True).start()
    started.wait()
for ident, thread in threading._active.items():
    print("thread", ident, hexa(thread.name))
print("thread", 12345, "-")
print("ready", flush=True)
sys.stdin.read()
waiting.set()
