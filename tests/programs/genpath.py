# SPDX-License-Identifier: Apache-2.0
"""Ground truth for generators: as pathtree.py, but every function is a generator.

A value hops up through all levels at each step; g_0_1 is only ever resumed by g_0.
Usage: genpath.py SECONDS [DEPTH] [FANOUT]
"""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
DEPTH = int(sys.argv[2]) if len(sys.argv) > 2 else 7
FANOUT = int(sys.argv[3]) if len(sys.argv) > 3 else 2


def build(name, depth, out):
    children = ["%s_%d" % (name, i) for i in range(FANOUT)] if depth else []
    body = "".join("    for value in %s():\n        yield value\n" % child for child in children)
    out.append("def %s():\n%s" % (name, body or "    yield 1\n    yield 2\n    yield 3\n"))
    for child in children:
        build(child, depth - 1, out)


source = []
build("g", DEPTH, source)
exec(compile("".join(source), "genpath_generated.py", "exec"), globals())
print("ready", flush=True)
end = time.time() + SECONDS
while time.time() < end:
    for _ in g():  # noqa: F821
        pass
