# SPDX-License-Identifier: Apache-2.0
"""Ground truth for torn stacks: a call tree whose function names spell their own path.

Function n_0_2_1 is only ever called by n_0_2, which is only ever called by n_0, and so on.
A recorded stack that breaks that rule was never on the real stack: it is an impossible stack.
Usage: pathtree.py SECONDS [DEPTH] [FANOUT]   prints, at the end, tree walks per second.
"""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
DEPTH = int(sys.argv[2]) if len(sys.argv) > 2 else 6
FANOUT = int(sys.argv[3]) if len(sys.argv) > 3 else 3


def build(name, depth, out):
    children = ["%s_%d" % (name, i) for i in range(FANOUT)] if depth else []
    body = "".join("    %s()\n" % c for c in children) or "    x = 1 + 1\n    return x * 2\n"
    out.append("def %s():\n%s" % (name, body))
    for child in children:
        build(child, depth - 1, out)


source = []
build("n", DEPTH, source)
exec(compile("".join(source), "pathtree_generated.py", "exec"), globals())
print("ready", flush=True)
walks = 0
start = time.time()
while time.time() - start < SECONDS:
    n()  # noqa: F821
    walks += 1
print("walks_per_second %.2f" % (walks / (time.time() - start)), flush=True)
