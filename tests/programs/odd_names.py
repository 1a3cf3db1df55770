# SPDX-License-Identifier: Apache-2.0
"""Ground truth for names: files, functions and threads that are called what nobody expects.

Prints one line of JSON (see groundtruth.py) and blocks, or with "busy SECONDS" says ready and runs the
same stack on the processor. "depth" in the report counts the frames from the first odd one to the leaf.
"""
import json
import os
import sys
import threading
import time

from groundtruth import Report

report = Report()


def block():
    report.here(main=True); report.publish(pid=os.getpid(), depth=len(NAMES) + 1), sys.stdin.read()  # noqa: E702


def burn():
    end = time.time() + float(sys.argv[2])
    print("ready", flush=True)
    while time.time() < end:
        sum(range(100))


# (function, file). Identifiers that the language takes, and names that only a code object can carry.
NAMES = [
    ("größe", "größe.py"),                                # one byte a character, not ASCII
    ("計算", "/srv/計算/模組.py"),                          # two bytes
    ("\U00010437\U00010438", "\U0001f40d/snake.py"),      # four bytes
    ("semi;colon", "a;b;c.py"),                           # the separator of collapsed stacks
    ("line\nfeed\r", "new\nline.py"),
    ("tab\tand\x1b[31mescape\x07\x7f", "bell\x07.py"),
    ("space and 17", "with space 12"),                    # looks like a count
    ("<b>&\"'</b>", "<script>alert(1)</script>.py"),      # markup
    ("a" * 3000, "/long/" + "d" * 3000 + "/x.py"),
    ("", ""),
    ("[unproved]", "[truncated]"),                        # looks like one of pyprof's own
    ("back\\slash", "C:\\windows\\style.py"),
    ("percent%20%s", "%d.py"),
    ("x:y (z.py:7)", "f.py:12"),
    ("\u202eright to left", "\ufeffbom.py"),
]
# Not encodable in UTF-8; readers see a replacement character.
SURROGATES = [("lone\udc80surrogate", "file\udcff.py")]


def renamed(function, name, file):
    code = function.__code__
    changes = {"co_name": name, "co_filename": file}
    if hasattr(code, "co_qualname"):
        changes["co_qualname"] = "Klaße." + name
    function.__code__ = code.replace(**changes)
    return function


def chain(last):
    call = last
    for name, file in reversed(NAMES + SURROGATES):
        def odd(below=call):
            return below()

        call = renamed(odd, name, file)
    return call


threading.current_thread().name = "Fäden; № 1\n\U0001f9f5"
if sys.argv[1:2] == ["busy"]:
    chain(burn)()
else:
    chain(block)()
