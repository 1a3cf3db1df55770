# SPDX-License-Identifier: Apache-2.0
"""Ground truth for switching stacks: A0 -> ... -> A27 -> leafA and B0 -> ... -> B27 -> leafB, in turn.

A stack that mixes A and B, or skips a level, never was. From 3.11 on a LENGTH of hundreds fills several chunks of the data
stack, which come and go with each chain.
Usage: chains.py SECONDS [WORK [LENGTH]]
"""
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
WORK = int(sys.argv[2]) if len(sys.argv) > 2 else 20
LENGTH = int(sys.argv[3]) if len(sys.argv) > 3 else 28

source = []
for letter in "AB":
    for level in range(LENGTH):
        below = "%s%d" % (letter, level + 1) if level + 1 < LENGTH else "leaf%s" % letter
        source.append("def %s%d():\n    return %s()\n" % (letter, level, below))
    source.append("def leaf%s():\n    s = 0\n    for i in range(%d): s += i\n    return s\n" % (letter, WORK))
exec(compile("".join(source), "chains_generated.py", "exec"), globals())
print("ready", flush=True)
end = time.time() + SECONDS
while time.time() < end:
    for _ in range(100):
        A0()  # noqa: F821
        B0()  # noqa: F821
