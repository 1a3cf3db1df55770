# SPDX-License-Identifier: Apache-2.0
"""Three chains a, b and c of 600 distinct functions that call one another, the last one leaf; called in turn for SECONDS.

From 3.11 on their frames fill several chunks of the data stack, which come and go with each chain.
Usage: deep_chains.py SECONDS
"""
import sys
import time


def leaf():
    s = 0
    for i in range(1000):
        s += i
    return s


def chain(letter):
    callee, names = "leaf", {"leaf": leaf}
    for number in range(600, 0, -1):
        name = "%s%d" % (letter, number)
        exec("def %s():\n    return %s()\n" % (name, callee), names)
        callee = name
    return names[callee]


sys.setrecursionlimit(2000)
chains = [chain(letter) for letter in "abc"]
end = time.time() + float(sys.argv[1])
print("ready", flush=True)
while time.time() < end:
    for first in chains:
        first()
