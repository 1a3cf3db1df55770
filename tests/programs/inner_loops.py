# SPDX-License-Identifier: Apache-2.0
"""Threads that call into other interpreters again and again, each time with other code.

Usage: inner_loops.py SECONDS. outer_a alone runs code that calls inner_a, and so on for every letter; "main" takes turns
with a and b in one interpreter, "worker" with c and d in another. Both interpreters were made by the main thread.
Prints {"interpreters": N}, N without the main one and 0 where this version has none.
"""
import json
import sys
import threading
import time

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = None

SCRIPT = """def inner_%s():
    for i in range(4000):
        i * i


inner_%s()
"""
end = time.monotonic() + float(sys.argv[1])


def outer_a(interpreter):
    interpreters.run_string(interpreter, SCRIPT % ("a", "a"))


def outer_b(interpreter):
    interpreters.run_string(interpreter, SCRIPT % ("b", "b"))


def outer_c(interpreter):
    interpreters.run_string(interpreter, SCRIPT % ("c", "c"))


def outer_d(interpreter):
    interpreters.run_string(interpreter, SCRIPT % ("d", "d"))


def take_turns(first, second, interpreter):
    while time.monotonic() < end:
        first(interpreter)
        second(interpreter)


if interpreters is None:
    print(json.dumps({"interpreters": 0}), flush=True)
    sys.exit(0)
made = [interpreters.create(), interpreters.create()]
worker = threading.Thread(target=take_turns, args=(outer_c, outer_d, made[1]), name="worker")
worker.start()
print(json.dumps({"interpreters": len(made)}), flush=True)
take_turns(outer_a, outer_b, made[0])
worker.join()
