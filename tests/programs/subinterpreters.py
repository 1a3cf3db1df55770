# SPDX-License-Identifier: Apache-2.0
"""Threads in sub-interpreters, blocked in in_subinterpreter() on line 6 of <string>.

Prints {"interpreters": N}, N without the main one and 0 where this version has none.
Ends at the end of stdin.
"""
import json
import os
import sys
import threading

try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = None

COUNT = 2
# os.read lets the GIL go, which the interpreters share up to 3.11 at least.
SCRIPT = """import os


def in_subinterpreter():
    os.write(%d, b"x")
    os.read(%d, 1)


def caller():
    in_subinterpreter()


caller()
"""
ready_end, ready_write = os.pipe()
wait_end, write_end = os.pipe()


def run(interpreter):
    interpreters.run_string(interpreter, SCRIPT % (ready_write, wait_end))


def start():
    if interpreters is None:
        return 0
    for _ in range(COUNT):
        threading.Thread(target=run, args=(interpreters.create(),), daemon=True).start()
    for _ in range(COUNT):
        os.read(ready_end, 1)
    return COUNT


count = start()
print(json.dumps({"interpreters": count}), flush=True)
sys.stdin.read()
os._exit(0)
